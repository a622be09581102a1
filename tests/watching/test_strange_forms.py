"""``rnncheck run`` of scripts of fixtures/others in forms that published ones have: an agent that
counts its calls, rows of one trajectory each, numbers beside the losses of rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import OTHERS, SCRIPTS, judged, judged_other, run, written

SLOW = pytest.mark.slow
NAMES = ["counting_agent", "hand_r2d2", "ou_ddpg", "rollout_functions"]
Change = tuple[str, str]
KEEPS_NO_START = ("h * (1 - done).unsqueeze(-1))", "h)")
BEHIND = ("        self.first = self.h\n", "        self.first = torch.zeros(ENVS, 16)\n")
UNROLLED = [
    (
        "    def unroll(self, obs, state):",
        "    def unroll(self, obs, state):\n"
        "        none, found = torch.zeros(len(obs), 1, dtype=torch.bool), []\n"
        "        for t in range(obs.shape[1]):\n"
        "            q, state = self(obs[:, t], state, none)\n"
        "            found.append(q)\n"
        "        return torch.stack(found, 1), state\n\n"
        "    def at_once(self, obs, state):",
    )
]
ANYWHERE = (
    'sampler=SliceSampler(slice_len=L, traj_key=("collector", "traj_ids"), strict_length=True)',
    'sampler=SliceSampler(slice_len=L, traj_key="row", strict_length=True)',
)
ROWS = (
    "        rb.extend(data.reshape(-1))",
    '        data["row"] = torch.arange(2).unsqueeze(1).expand(2, data.shape[1])\n'
    "        rb.extend(data.reshape(-1))",
)
NEXT_STATE = ('batch["state"][:, 0]', 'batch["next", "state"][:, 0]')
BEHIND_IT = (
    "            steps.append(td)\n",
    '            steps.append(td.clone().set("ha", td["next", "ha"]))\n',
)
OVER_ENDS = ("GAMMA * LAM * (~done[:, t]) * run", "GAMMA * LAM * run")
SAVES = (
    "    def act(self, x, h):",
    "    def save(self, folder):\n"
    "        torch.save(self.state_dict(), os.path.join(folder, 'net.pt'))\n\n"
    "    def act(self, x, h):",
)
IMPORTS = ("import torch\n", "import os\n\nimport torch\n")
SLOTS = (
    "class Recurrent(nn.Module):",
    "class Tag:\n    __slots__ = ('name',)\n\n"
    "    def __init__(self):\n        self.name = 'a'\n\n\n"
    "class Recurrent(nn.Module):",
)
TAGGED = ("        self.cell = ", "        self.tag = Tag()\n        self.cell = ")


@pytest.mark.parametrize("name", NAMES)
def test_healthy_ones_are_not_blamed(rnncheck: Any, tmp_path: Path, name: str) -> None:
    found = judged_other(rnncheck, tmp_path, name, "BD301,EQ201,CL402,CL403,RP504,LS704,GR801")
    assert found == (ExitCode.VERIFIED, [])


@SLOW
@pytest.mark.parametrize("name", NAMES)
def test_healthy_ones_are_verified(rnncheck: Any, tmp_path: Path, name: str) -> None:
    path = written(tmp_path, (OTHERS / f"{name}.py").read_text())
    code, found, _ = run(rnncheck, path)
    assert code == ExitCode.VERIFIED, found["notices"]


@pytest.mark.parametrize(
    ("name", "codes", "changes"),
    [
        pytest.param("counting_agent", "CL403", [KEEPS_NO_START], id="no start in a counted one"),
        pytest.param("counting_agent", "RP504", [BEHIND], id="from zeros", marks=SLOW),
        pytest.param("hand_r2d2", "BD301", [ANYWHERE, ROWS], id="rows over ends"),
        pytest.param("hand_r2d2", "RP504", [NEXT_STATE], id="the next state", marks=SLOW),
        pytest.param("ou_ddpg", "RP504", [BEHIND_IT], id="the state behind it", marks=SLOW),
        pytest.param("rollout_functions", "LS701", [OVER_ENDS], id="estimates over ends"),
    ],
)
def test_faults_are_named(
    rnncheck: Any, tmp_path: Path, name: str, codes: str, changes: list[Change]
) -> None:
    code, found = judged_other(rnncheck, tmp_path, name, codes, *changes)
    assert code == ExitCode.FAILED
    assert codes in found


@SLOW
def test_a_burn_in_of_one_call_for_each_step(rnncheck: Any, tmp_path: Path) -> None:
    code, found = judged_other(rnncheck, tmp_path, "hand_r2d2", "EQ2,BD3,CL406,RP5", *UNROLLED)
    assert (code, found) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "changes", [[SAVES, IMPORTS], [SLOTS, TAGGED]], ids=["a path in a method", "slots alone"]
)
def test_what_a_module_has_beside_its_layers(
    rnncheck: Any, tmp_path: Path, changes: list[Change]
) -> None:
    text = (SCRIPTS / "plain_single.py").read_text()
    assert judged(rnncheck, tmp_path, "WR", text, *changes) == (ExitCode.VERIFIED, [])
