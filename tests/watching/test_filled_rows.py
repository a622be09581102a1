"""``rnncheck run``: steps that are no data, where no mask in the batch says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.filled_script import FAULTS, HEALTHY
from tests.watching.scripts import failed, run


def ran(
    rnncheck: Any, folder: Path, text: str, *codes: str
) -> tuple[int, list[str], dict[str, str]]:
    """Exit code, codes that failed, and what each check says."""
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    ended, told, _ = run(rnncheck, *options, folder / "train.py")
    said = {one["code"]: one["reason"] for one in told["checks"] if one["outcome"] == "passed"}
    return ended, failed(told), said


@pytest.mark.parametrize(("name", "code"), FAULTS)
def test_what_counts_them_is_named(rnncheck: Any, tmp_path: Path, name: str, code: str) -> None:
    text = HEALTHY[name].replace(*FAULTS[name, code], 1)
    assert text != HEALTHY[name]
    assert ran(rnncheck, tmp_path, text, code)[:2] == (ExitCode.FAILED, [code])


@pytest.mark.parametrize("name", HEALTHY)
def test_what_leaves_them_out_is_verified(rnncheck: Any, tmp_path: Path, name: str) -> None:
    """There are such steps in the batches, and the pass over the others is compared."""
    ended, names, said = ran(rnncheck, tmp_path, HEALTHY[name], "RP505", "RP507")
    assert (ended, names) == (ExitCode.VERIFIED, [])
    assert "padded steps are left out" in said["RP505"]
    assert "replayed outputs are the trajectory's" in said["RP507"]
