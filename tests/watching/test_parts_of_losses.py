"""``rnncheck run`` of scripts that call the parts of a loss module one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

WHOLE = (
    "        losses = loss_module(sample)\n",
    '        loss = losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]\n',
)
PARTS = """        with set_recurrent_mode(True):
            worth_loss, _ = loss_module.qvalue_v2_loss(sample)
            acting_loss, _ = loss_module.actor_loss(sample)
        loss = worth_loss.mean() + acting_loss.mean()
"""
BY_PARTS = ((WHOLE[0], ""), (WHOLE[1], PARTS))
IMPORTED = (
    "\nfrom torchrl.objectives",
    "\nfrom torchrl.modules import set_recurrent_mode\nfrom torchrl.objectives",
)
CRITIC_APART = (
    "                losses = loss_module(data[rows])\n",
    """                losses = loss_module(data[rows])
                losses["loss_critic"] = loss_module.loss_critic(data[rows])[0]
""",
)
LATE = ('        sample["next", "is_init"] = sample["is_init"]\n', "")
STEP_BY_STEP = ("with set_recurrent_mode(True):\n            worth", "if True:\n            worth")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param(
            (LATE,),
            (ExitCode.FAILED, ["LS701"]),
            id="start flags are missing",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_parts_are_judged_as_the_loss_that_they_are_of(
    rnncheck: Any, tmp_path: Path, fault: Any, expected: tuple[int, list[str]]
) -> None:
    path = planted(tmp_path, "sac_rollouts.py", IMPORTED, *BY_PARTS, *fault)
    code, told, _ = run(rnncheck, "--select", "LS701,LS703,GR801,RP502", path)
    assert (code, failed(told)) == expected


@pytest.mark.slow
def test_parts_that_set_recurrent_mode_by_themselves(rnncheck: Any, tmp_path: Path) -> None:
    """As TorchRL's own parts do that are named ``…_loss``."""
    for fault, expected in (((), ExitCode.VERIFIED), ((LATE,), ExitCode.FAILED)):
        path = planted(tmp_path, "sac_rollouts.py", IMPORTED, *BY_PARTS, STEP_BY_STEP, *fault)
        code, told, _ = run(rnncheck, "--select", "LS701,LS703,GR801,RP502", path)
        assert (code, told["notices"]) == (expected, told["notices"][:1])


def test_parts_out_of_recurrent_mode_are_not_judged_as_the_whole(
    rnncheck: Any, tmp_path: Path
) -> None:
    path = planted(tmp_path, "ppo_cartpole.py", CRITIC_APART)
    _, told, _ = run(rnncheck, "--select", "LS703", path)
    assert any(
        "a part of ClipPPOLoss is called out of recurrent mode" in one for one in told["notices"]
    )
