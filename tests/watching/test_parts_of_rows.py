"""``rnncheck run``: rows out of a memory of which the lines train on some steps alone, under the
names that all of them had or under others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, failed, judged, run, written

Changes = tuple[tuple[str, str], ...]

ROWS = (SCRIPTS.parent / "others" / "r2d2.py").read_text()
CODES = "EQ201,GR801,LS703,RP504,RP505,VL603,VL604"
DRAWN = "    obs, act, rew, done, h, c, length = replay.sample(BATCH)\n"
CUT = "    act, rew, done = act[:, BURN:], rew[:, BURN:], done[:, BURN:]\n"
PARTS = "    warm, later = obs[:, :BURN], obs[:, BURN:]\n"
NAMED: Changes = (
    ("act[:, BURN:].unsqueeze", "act.unsqueeze"),
    ("rew[:, BURN:].shape", "rew.shape"),
    ("rew[:, BURN + t + k]", "rew[:, t + k]"),
    ("done[:, BURN + t + k]", "done[:, t + k]"),
)
BEHIND: Changes = (*NAMED, ("    q_a = q", CUT + "    q_a = q"))
AHEAD: Changes = (*NAMED, (DRAWN, DRAWN + CUT))
APART: Changes = (
    *NAMED,
    (DRAWN, DRAWN + CUT + PARTS),
    ("(obs[:, :BURN]", "(warm"),
    ("(obs[:, BURN:]", "(later"),
)
LINES = """            with torch.no_grad():
                q, state = online(torch.from_numpy(obs).view(1, 1, -1), state)
            a = random.randrange(3) if random.random() < eps else int(q.argmax())
"""
FUNCTION = """def act(online, obs, state, eps):
    with torch.no_grad():
        q, state = online(torch.from_numpy(obs).view(1, 1, -1), state)
    return random.randrange(3) if random.random() < eps else int(q.argmax()), state


"""
ACTED: Changes = (
    (LINES, "            a, state = act(online, obs, state, eps)\n"),
    ("def main():\n", FUNCTION + "def main():\n"),
)
PADDED = ("unsqueeze(0) + BURN <", "unsqueeze(0) <")
EARLY = ("boot[:, last]", "boot[:, last - 1]")
ON_AND_ON = ("                alive = alive * (1 - done[:, t + k])\n", "")
NO_WARMING = ("(obs[:, BURN:], state)", "(obs[:, BURN:], (h, c))")


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(AHEAD, id="bound anew ahead of the networks"),
        pytest.param(BEHIND, id="bound anew behind them"),
        pytest.param(APART, id="under other names"),
    ],
)
def test_healthy_ones_are_verified(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    found = judged(rnncheck, tmp_path, CODES, ROWS, *changes)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("changes", "fault", "expected"),
    [
        pytest.param(AHEAD, PADDED, "RP505", id="padding counts"),
        pytest.param(BEHIND, EARLY, "VL604", id="n steps end one early"),
        pytest.param(AHEAD, NO_WARMING, "RP504", id="the warm state is not used"),
        pytest.param(APART, ON_AND_ON, "VL603", id="goes on behind an end"),
        pytest.param(APART, PADDED, "RP505", id="padding counts, other names"),
        pytest.param(AHEAD, EARLY, "VL604", id="n steps end one early, names of before"),
    ],
)
def test_a_fault_is_named(
    rnncheck: Any, tmp_path: Path, changes: Changes, fault: tuple[str, str], expected: str
) -> None:
    code, found = judged(rnncheck, tmp_path, CODES, ROWS, *changes, fault)
    assert code == ExitCode.FAILED
    assert expected in found


@pytest.mark.slow
def test_what_was_kept_is_judged_as_well(rnncheck: Any, tmp_path: Path) -> None:
    path, kept = written(tmp_path, ROWS, *ACTED, *AHEAD, PADDED), tmp_path / "seen.run"
    _, told, _ = run(rnncheck, "--select", "RP505", "--save", kept, path)
    assert failed(told) == ["RP505"]
    done = rnncheck("verify", "--select", "RP505", str(kept))
    assert done.returncode == ExitCode.FAILED, done.stdout
