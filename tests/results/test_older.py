"""Results that rnncheck stored before its results told what each check is: read and rendered."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

STORED = Path(__file__).parent / "stored"
RUNS = ("verify", "bench", "gate")
FORMATS = ("json", "jsonl", "junit", "sarif", "markdown", "csv", "html", "console")
Runner = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("name", RUNS)
def test_it_is_rendered_in_every_format(rnncheck: Runner, tmp_path: Path, name: str) -> None:
    stored = STORED / f"{name}.json"
    codes = {check["code"] for check in json.loads(stored.read_text())["checks"]}
    asked = [word for form in FORMATS for word in ("--report", f"{form}={tmp_path / form}")]
    done = rnncheck("report", str(stored), *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    for form in FORMATS:
        told = (tmp_path / form).read_text()
        assert told
        if form in ("json", "jsonl", "junit", "sarif"):
            assert all(code in told for code in codes)


def test_what_was_stored_comes_back(rnncheck: Runner, tmp_path: Path) -> None:
    for name in RUNS:
        stored = STORED / f"{name}.json"
        before = json.loads(stored.read_text())
        after = json.loads(rnncheck("report", str(stored), "--report", "json").stdout)
        assert after.pop("rules") == after.pop("guarantees") == after.pop("causes") == []
        assert after.pop("left_out") == []
        assert after.pop("memory") is after.pop("exhibits") is None
        assert {stage.pop("source") for stage in after["stages"]} <= {None}
        for check in after["checks"]:
            assert (check.pop("compared"), check.pop("deferred_to")) == (0, [])
        assert all(one.pop("open") == [] for one in after["recommendations"])
        assert after == before


def test_it_is_compared(rnncheck: Runner) -> None:
    done = rnncheck("compare", str(STORED / "verify.json"), str(STORED / "gate.json"))
    assert done.returncode == 0, done.stderr
    assert "21 same, 4 new" in done.stdout
