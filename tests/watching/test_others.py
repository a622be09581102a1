"""``rnncheck run`` of the scripts of fixtures/others, which somebody wrote who had not read the
checks: healthy as they are, and with a fault in their text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, failed, run, written

OTHERS = SCRIPTS.parent / "others"
CODES = "BD301,CL403,CL406,EQ201,EQ202,GR801,GR803,LS701,LS707,RP504,RP505,VL603,VL604"
Change = tuple[str, str]

ROLLED = (
    'batch["agents", "action"].argmax',
    'batch["agents", "action"].roll(1, 1).argmax',
)
ENDS_COUNT = ("last_value * (~terminated[:, t]).float()", "last_value")
ENDS_ALONE = ("(~terminated[:, t]).float()", "terminated[:, t].float()")
FROM_PADDING = ("last = trajs[rows, lengths - 1]", "last = trajs[rows, -1]")
FROM_ZEROS = ("hx = hx.detach()", "hx = torch.zeros(1, 32)")
OWN_STEP = ("torch.min(n1, n2)[1:]", "torch.min(n1, n2)[:-1]")
EARLY = ("last = t + k + 1", "last = t + k")
KEPT = (
    "        h, c = Q.init_hidden_state(batch_size=1, training=False)\n",
    "        if not i:\n            h, c = Q.init_hidden_state(batch_size=1, training=False)\n",
)
NOT_BEGUN = ("            algo.reinitialize_hidden()\n        if buffer", "        if buffer")
AT_ZERO = (
    "        self.gae(batch)",
    '        batch["hx"][:, 0] = 0.0\n        batch["cx"][:, 0] = 0.0\n        self.gae(batch)',
)
BEHIND = (
    'state = {"h0": batch["h0"][:, 0], "c0": batch["c0"][:, 0]}',
    'state = {"h0": batch["next", "h0"][:, 0], "c0": batch["next", "c0"][:, 0]}',
)
ALWAYS = ("        if not terminated:\n", "        if True:\n")
NO_STARTS = (
    "a = torch.where(start.unsqueeze(-1), torch.zeros((), dtype=torch.cfloat), lam)",
    "a = lam.expand(*start.shape, -1)",
)


def judged(rnncheck: Any, folder: Path, name: str, *changes: Change) -> tuple[int, list[str]]:
    path = written(folder, (OTHERS / f"{name}.py").read_text(), *changes)
    # Others have no joint to look at.
    codes = f"{CODES},CL404" if name in ("a3c", "a3c_reset") else CODES
    code, told, _ = run(rnncheck, "--select", codes, path)
    return code, failed(told)


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "name",
    [
        "vdn",
        "r2d2",
        "c51",
        "drqn",
        "reinforce",
        "a3c",
        "td3",
        "lru",
        "padded_pg",
        "sac_padded",
        "sac",
        "c51_flat",
        "impala",
        "student",
        "lightning",
        "own_r2d2",
        "twin",
        "td3_late_actor",
        "a3c_reset",
    ],
)
def test_healthy_ones_are_verified(rnncheck: Any, tmp_path: Path, name: str) -> None:
    assert judged(rnncheck, tmp_path, name) == (ExitCode.VERIFIED, [])


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        pytest.param("lightning", AT_ZERO, "RP504", id="later rollouts begin with zeros"),
        pytest.param(
            "own_r2d2",
            BEHIND,
            "RP504",
            id="the state behind the first step",
            marks=pytest.mark.slow,
        ),
        pytest.param("a3c_reset", ALWAYS, "VL603", id="goes on behind a reset"),
        pytest.param("drqn", KEPT, "CL403", id="the state is kept behind an end"),
        pytest.param("vdn", ROLLED, "LS707", id="actions of the step before"),
        pytest.param("a3c", FROM_ZEROS, "CL404", id="zeros inside of an episode"),
        pytest.param("r2d2", EARLY, "VL604", id="n steps end one early"),
        pytest.param("td3", OWN_STEP, "VL604", id="the value of the step itself"),
        pytest.param("padded_pg", ENDS_COUNT, "VL603", id="goes on behind an end"),
        pytest.param("padded_pg", ENDS_ALONE, "VL603", id="goes on behind ends alone"),
        pytest.param("padded_pg", FROM_PADDING, "RP505", id="the value of padding"),
        pytest.param("sac_padded", NOT_BEGUN, "CL403", id="never begun anew"),
        pytest.param("lru", NO_STARTS, "BD301", id="a scan over starts"),
    ],
)
def test_a_fault_is_named(
    rnncheck: Any, tmp_path: Path, name: str, change: Change, expected: str
) -> None:
    code, found = judged(rnncheck, tmp_path, name, change)
    assert code == ExitCode.FAILED
    assert expected in found


def test_a_state_that_begins_anew_behind_a_resetting_step_is_not_seen(
    rnncheck: Any, tmp_path: Path
) -> None:
    path = written(tmp_path, (OTHERS / "next_step.py").read_text())
    code, _, done = run(rnncheck, "--select", CODES, path)
    assert code == ExitCode.NOT_SHOWN
    assert "AutoresetMode.NEXT_STEP" in done.stdout


def test_no_verdict_on_rows_beside_a_loss(rnncheck: Any, tmp_path: Path) -> None:
    """Which `mb` picks: they stay where they are when rows change places."""
    path = written(tmp_path, (OTHERS / "twin.py").read_text())
    code, told, _ = run(rnncheck, "--select", "LS704", path)
    (check,) = told["checks"]
    assert (code, check["outcome"]) == (ExitCode.NOT_SHOWN, "could-not-look")
    assert "`mb`" in check["reason"]


@pytest.mark.slow
def test_what_was_kept_is_judged_as_well(rnncheck: Any, tmp_path: Path) -> None:
    path, kept = written(tmp_path, (OTHERS / "drqn.py").read_text()), tmp_path / "seen.run"
    run(rnncheck, "--select", "CL403", "--save", kept, path)
    done = rnncheck("verify", "--select", "CL403,RP504,VL604", str(kept))
    assert done.returncode == ExitCode.VERIFIED, done.stdout
