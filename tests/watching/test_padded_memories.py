"""``rnncheck run``: rows out of a memory which zeros follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import padded_memory_script as scripts
from tests.watching.padded_memory_script import CHUNKS, EPISODES, Change
from tests.watching.scripts import failed, judged, run, written


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(EPISODES, id="episodes"),
        pytest.param(CHUNKS, id="chunks", marks=pytest.mark.slow),
    ],
)
def test_healthy(rnncheck: Any, tmp_path: Path, text: str) -> None:
    """All of it is shown."""
    code, told, _ = run(rnncheck, written(tmp_path, text))
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("text", "change", "code"),
    [
        pytest.param(EPISODES, scripts.PADDING_COUNTS, "RP505", id="padding counts"),
        pytest.param(EPISODES, scripts.OVER_ENDS, "VL603", id="over ends"),
        pytest.param(
            EPISODES,
            scripts.OWN_VALUE,
            "VL604",
            id="value of the step itself",
            marks=pytest.mark.slow,
        ),
        pytest.param(CHUNKS, scripts.STATE_BEHIND, "RP504", id="state behind the step"),
        pytest.param(CHUNKS, scripts.FROM_ZEROS, "RP504", id="burn-in thrown away"),
        pytest.param(CHUNKS, scripts.COLD_TARGET, "VL604", id="a target without its burn-in"),
        pytest.param(CHUNKS, scripts.ALL_COUNT, "RP505", id="all of it counts"),
    ],
)
def test_faulty(rnncheck: Any, tmp_path: Path, text: str, change: Change, code: str) -> None:
    assert judged(rnncheck, tmp_path, code, text, change) == (ExitCode.FAILED, [code])


@pytest.mark.slow
def test_saved(rnncheck: Any, tmp_path: Path) -> None:
    """What is kept of it, the weights of its rows too, is judged alike."""
    kept = tmp_path / "seen.rnncheck"
    script = written(tmp_path, CHUNKS, *scripts.BY_FUNCTION, scripts.FROM_ZEROS)
    run(rnncheck, "--select", "RP5", "--save", kept, script)
    done = rnncheck("verify", "--select", "RP504", str(kept), cwd=tmp_path)
    assert done.returncode == ExitCode.FAILED, done.stdout
