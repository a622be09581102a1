"""Networks that targets are made with, and copies that act, that nothing updates: found in scripts,
and left alone where a line that was not reached may update them, or where they are no targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.watching.scripts import SCRIPTS, run, written

OTHERS = SCRIPTS.parent / "others"
Change = tuple[str, str]
NOT_IN_PLACE = (
    "pt.mul_(1 - self.tau).add_(self.tau * p)",
    "pt.mul(1 - self.tau).add(self.tau * p)",
)
FROM_ELSEWHERE = (
    "for p, pt in zip(self.critic.parameters(), self.critic_target.parameters()):\n"
    "                pt.mul_(1 - self.tau).add_(self.tau * p)",
    "if self.tau > 1:\n"
    "                new = iter(self.critic.parameters())\n"
    "                for _, pt in zip(range(99), self.critic_target.parameters()):\n"
    "                    pt.copy_(next(new))",
)
ITSELF = ("pt.mul_(1 - self.tau).add_(self.tau * p)", "pt.copy_(pt)")
RARELY = ("if self.updates % self.args.target_every == 0:", "if self.updates % 10**6 == 0:")
LOADED = "self.q_target.load_state_dict(self.q.state_dict())"
PAIRS = "for t, s in zip(self.q_target.parameters(), self.q.parameters()):\n                "
NEVER_STEPPED = ("        updater.step()\n", "")
NOW_AND_THEN = ("        updater.step()\n", "        if i > 10**6:\n            updater.step()\n")

WRAPPER = (
    "\n\nclass Wrapper:\n    def __init__(self, env):\n        self._env = env\n\n"
    "    def __getattr__(self, name):\n        return getattr(self._env, name)\n\n\n"
)
LOADS = "acting.load_state_dict(online_net.state_dict())"
COPY_ACTS = (
    ("    optimizer =", f"    acting = DRQN(2, 2)\n    {LOADS}\n    optimizer ="),
    ("get_action(state, online_net", "get_action(state, acting"),
)
COPY_COLLECTS = (
    ("import torch\n", "import copy\n\nimport torch\n"),
    ("make_env(memory), actor,", "make_env(memory), copy.deepcopy(actor),"),
)
UPDATED = "                if steps % update_target == 0:\n"
LATER = f"                if steps > 10**6:\n                    {LOADS}\n{UPDATED}"
STEPPED = "        optim.step()\n"
SENT = "        if batch.numel() > 10**6:\n            collector.update_policy_weights_()\n"


def outcome(
    rnncheck: Any, folder: Path, path: Path, *changes: Change, rule: str = "GR807"
) -> tuple[str, str]:
    """What the rule says of the script with these changes, and why."""
    script = written(folder, path.read_text(), *changes)
    _, told, _ = run(rnncheck, "--select", rule, script)
    check = next(one for one in told["checks"] if one["code"] == rule)
    return check["outcome"], f"{check['reason']} {told['notices']}"


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        pytest.param(SCRIPTS / "dqn_cartpole.py", [NEVER_STEPPED], id="an updater"),
        pytest.param(
            SCRIPTS / "dqn_cartpole.py",
            [
                NEVER_STEPPED,
                (
                    "updater = SoftUpdate(",
                    "def late():\n    updater.step()\n\nupdater = SoftUpdate(",
                ),
            ],
            id="in a function that nobody calls",
        ),
        pytest.param(
            OTHERS / "own_r2d2.py",
            [
                (
                    "            self.q_target.load_state_dict(self.q.state_dict())",
                    "            pass",
                )
            ],
            id="weights that are loaded",
        ),
        pytest.param(
            OTHERS / "own_r2d2.py",
            [(LOADED, "torch.zeros(3).new().resize_(2).zero_()")],
            id="a tensor that the line makes",
        ),
        pytest.param(OTHERS / "gru_sac.py", [NOT_IN_PLACE], id="lines that write nothing"),
        pytest.param(
            OTHERS / "gru_sac.py",
            [NOT_IN_PLACE, ("import torch\n", f"import torch\n{WRAPPER}")],
            id="a wrapper that hands on what it is asked for",
        ),
        pytest.param(OTHERS / "gru_sac.py", [ITSELF], id="a mix with itself"),
    ],
)
def test_one_that_nothing_updates_is_named(
    rnncheck: Any, tmp_path: Path, path: Path, changes: list[Change]
) -> None:
    assert outcome(rnncheck, tmp_path, path, *changes)[0] == "failed"


@pytest.mark.parametrize(
    ("path", "changes", "said"),
    [
        pytest.param(SCRIPTS / "dqn_cartpole.py", [], "passed", id="an updater"),
        pytest.param(SCRIPTS / "dqn_cartpole.py", [NOW_AND_THEN], "may do so later", id="later on"),
        pytest.param(OTHERS / "own_r2d2.py", [], "passed", id="weights that are loaded"),
        pytest.param(
            OTHERS / "own_r2d2.py",
            [RARELY, (LOADED, PAIRS + "t.data[:] = s.data")],
            "may do so later",
            id="slices",
        ),
        pytest.param(
            OTHERS / "own_r2d2.py",
            [RARELY, (LOADED, PAIRS + "torch.lerp(t.data, s.data, 0.1, out=t.data)")],
            "may do so later",
            id="an output",
        ),
        pytest.param(
            OTHERS / "own_r2d2.py",
            [RARELY, (LOADED, 'getattr(self, f"sync_{self.updates}")()')],
            "may do so later",
            id="a name that is made",
        ),
        pytest.param(OTHERS / "gru_sac.py", [], "passed", id="held by who acts"),
        pytest.param(
            OTHERS / "gru_sac.py",
            [FROM_ELSEWHERE],
            "may do so later",
            id="weights of an iterator",
        ),
        pytest.param(OTHERS / "distill.py", [], "no network was seen", id="a teacher"),
    ],
)
def test_what_is_updated_or_may_be_is_left_alone(
    rnncheck: Any, tmp_path: Path, path: Path, changes: list[Change], said: str
) -> None:
    told, why = outcome(rnncheck, tmp_path, path, *changes)
    assert told != "failed"
    assert said in (told if said == "passed" else why)


@pytest.mark.parametrize(
    ("path", "changes", "told", "said"),
    [
        pytest.param(OTHERS / "listed_rows.py", COPY_ACTS, "failed", "", id="never"),
        pytest.param(
            OTHERS / "listed_rows.py",
            (*COPY_ACTS, (UPDATED, f"                {LOADS}\n{UPDATED}")),
            "passed",
            "",
            id="at each update",
        ),
        pytest.param(
            OTHERS / "listed_rows.py",
            (
                *COPY_ACTS,
                (UPDATED, f"                if steps > 10**6:\n{24 * ' '}{LOADS}\n{UPDATED}"),
            ),
            "passed",
            "may give it others later",
            id="later on",
        ),
        pytest.param(
            SCRIPTS / "own_actor_critic.py", COPY_COLLECTS, "failed", "", id="a collector's, never"
        ),
        pytest.param(
            SCRIPTS / "own_actor_critic.py",
            (*COPY_COLLECTS, (STEPPED, STEPPED + SENT)),
            "could-not-look",
            "was given none of its weights",
            id="a collector's, later on",
        ),
    ],
)
def test_a_copy_acts(
    rnncheck: Any, tmp_path: Path, path: Path, changes: tuple[Change, ...], told: str, said: str
) -> None:
    """Which the script gives weights, may give some, or gives none."""
    found, why = outcome(rnncheck, tmp_path, path, *changes, rule="GR806")
    assert found == told
    assert said in why
