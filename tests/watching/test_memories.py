"""``rnncheck run``: loops over a plain env that train on sequences out of a memory of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import memory_script as scripts
from tests.watching.memory_script import DRQN, R2D2, TD3, Change, changed
from tests.watching.scripts import failed, run

SLOW = pytest.mark.slow


def written(folder: Path, text: str, *changes: Change) -> Path:
    path = folder / "train.py"
    path.write_text(changed(text, *changes))
    return path


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(DRQN, id="drqn", marks=pytest.mark.slow),
        pytest.param(R2D2, id="r2d2", marks=SLOW),
        pytest.param(TD3, id="td3", marks=SLOW),
    ],
)
def test_healthy(rnncheck: Any, tmp_path: Path, text: str) -> None:
    code, told, _ = run(rnncheck, written(tmp_path, text))
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


def test_time_limits_that_are_kept_as_ends_are_a_warning(rnncheck: Any, tmp_path: Path) -> None:
    """And none where those that were terminated alone are."""
    told = [
        run(rnncheck, "--select", "VL603", written(tmp_path, DRQN, scripts.CUT_SOON, *more))
        for more in ((), (scripts.LIMITS_END,))
    ]
    assert [(code, failed(one)) for code, one, _ in told] == [
        (ExitCode.VERIFIED, []),
        (ExitCode.VERIFIED, ["VL603"]),
    ]
    (found,) = told[1][1]["checks"]
    assert "a time limit cut are trained on as ends" in found["findings"][0]["message"]


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("text", "change", "code"),
    [
        pytest.param(DRQN, scripts.SHUFFLED, "RP502", id="shuffled"),
        pytest.param(DRQN, scripts.OVER_ENDS, "VL603", id="over ends", marks=SLOW),
        pytest.param(DRQN, scripts.SAME_NEXT, "RP509", id="no next step", marks=SLOW),
        pytest.param(DRQN, scripts.LATER_NEXT, "RP509", id="a later step"),
        pytest.param(DRQN, scripts.OTHER_ACTIONS, "LS707", id="other actions", marks=SLOW),
        pytest.param(DRQN, scripts.TIME_FIRST, "EQ201", id="time first"),
        pytest.param(DRQN, scripts.PAIRED, "LS708", id="paired", marks=SLOW),
        pytest.param(R2D2, scripts.FROM_ZERO, "RP504", id="from zero"),
        pytest.param(R2D2, scripts.STORED_AS_ZERO, "RP504", id="stored as zero", marks=SLOW),
        pytest.param(R2D2, scripts.OF_OTHER_ROWS, "RP504", id="of other rows", marks=SLOW),
        pytest.param(TD3, scripts.OTHER_TARGETS, "LS701", id="other targets", marks=SLOW),
        pytest.param(R2D2, scripts.TARGETS_FROM_ZERO, "VL604", id="targets from zero"),
    ],
)
def test_faulty(rnncheck: Any, tmp_path: Path, text: str, change: Change, code: str) -> None:
    status, told, _ = run(rnncheck, "--select", code, written(tmp_path, text, change))
    assert (status, failed(told)) == (ExitCode.FAILED, [code])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(
            (), (ExitCode.VERIFIED, []), id="behind the last reward", marks=pytest.mark.slow
        ),
        pytest.param(
            (scripts.ONE_EARLY,),
            (ExitCode.FAILED, ["VL604"]),
            id="one early",
        ),
    ],
)
def test_targets_of_several_rewards(
    rnncheck: Any, tmp_path: Path, more: tuple[Change, ...], expected: tuple[int, list[str]]
) -> None:
    changes = (scripts.LONGER, scripts.N_STEP, scripts.CUT, *more)
    code, told, _ = run(rnncheck, "--select", "VL604,VL603", written(tmp_path, DRQN, *changes))
    assert (code, failed(told)) == expected


def test_saved(rnncheck: Any, tmp_path: Path) -> None:
    path, seen = written(tmp_path, R2D2, scripts.FROM_ZERO), tmp_path / "seen.rnncheck"
    run(rnncheck, "--select", "RP504", "--save", seen, path, cwd=tmp_path)
    again = rnncheck("verify", "--select", "RP504", str(seen), cwd=tmp_path)
    assert again.returncode == ExitCode.FAILED, again.stdout + again.stderr
