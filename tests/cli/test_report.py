"""``rnncheck report``, through the CLI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.store import default_store, dumps, prepare_store, store_run, write_run
from tests.report.canned import BROKEN, HEALTHY, INTERRUPTED
from tests.report.swept import SWEEP


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    write_run(BROKEN, tmp_path / "run.json")
    return tmp_path / "run.json"


def test_a_failed_run_is_rendered_and_exits_0(rnncheck: Any, stored: Path) -> None:
    done = rnncheck("report", str(stored))
    assert done.returncode == 0, done.stderr
    assert "WR103 missing-state-primer" in done.stdout
    assert "exit 1 (a check failed)" in done.stdout
    assert done.stderr == ""


def test_several_formats(rnncheck: Any, stored: Path, tmp_path: Path) -> None:
    xml, sarif = tmp_path / "r.xml", tmp_path / "r.sarif"
    done = rnncheck(
        "report",
        str(stored),
        "--report",
        f"junit={xml}",
        "--report",
        f"sarif={sarif}",
        "--report",
        "json",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(stored.read_text())
    assert json.loads(sarif.read_text())["version"] == "2.1.0"
    assert "WR103" in xml.read_text()


def test_quiet_and_verbose(rnncheck: Any, stored: Path) -> None:
    assert len(rnncheck("report", str(stored), "-q").stdout.splitlines()) == 5
    assert "LSTMModule carries h and c" in rnncheck("report", str(stored), "-v").stdout


def test_the_latest_run_is_found_from_below(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    for run in (BROKEN, HEALTHY):
        path = default_store(tmp_path / "rnncheck.yaml")
        prepare_store(path)
        store_run(run, path)
    for args, cwd in (
        ((), below),
        ((str(tmp_path),), Path.cwd()),
        (((str(tmp_path / ".rnncheck"),)), below),
    ):
        done = rnncheck("report", "--report", "json", *args, cwd=cwd)
        assert json.loads(done.stdout)["verdict"] == "verified", done.stderr


def test_an_interrupted_run_says_so(rnncheck: Any, tmp_path: Path) -> None:
    write_run(INTERRUPTED, tmp_path / "r.json")
    out = rnncheck("report", str(tmp_path / "r.json")).stdout
    assert "interrupted during EQ201 modes-disagree; not run: BD301, CL401" in out
    assert "exit 130 (interrupted)" in out


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("variant", "pda", "cells[0].cell.variant: 'pda' names no recurrent backend"),
        ("batch", "many", "cells[0].cell.batch: input should be a valid integer"),
    ],
)
def test_a_cell_that_is_none_is_one_sentence(
    rnncheck: Any, tmp_path: Path, field: str, value: str, said: str
) -> None:
    data = json.loads(dumps(SWEEP))
    data["cells"][0]["cell"][field] = value
    (tmp_path / "r.json").write_text(json.dumps(data))
    done = rnncheck("report", str(tmp_path / "r.json"))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


BAD = {
    "missing": (None, "there is no such file"),
    "empty": ("", "1:1: this is not JSON"),
    "not json": ('{\n  "format": }', "2:13: this is not JSON"),
    "deep": ("[" * 200_000, "this JSON cannot be read"),
    "a list": ("[]", "this is no stored result"),
    "another object": ('{"name": 1}', "`format` is missing"),
    "the future": (
        '{"format": 99}',
        "this result has format 99; this rnncheck reads formats 1 and 2",
    ),
    "binary": (b"\x89PNG\xff\x00", "this is not a text file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_exits_2_with_a_sentence(rnncheck: Any, tmp_path: Path, name: str) -> None:
    content, said = BAD[name]
    path = tmp_path / "r.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    _refused(rnncheck("report", str(path)), said)


def test_a_changed_field_is_named(rnncheck: Any, stored: Path) -> None:
    data = json.loads(stored.read_text())
    data["checks"][3]["findings"][0]["where"] = {"step": "twelve"}
    stored.write_text(json.dumps(data))
    done = rnncheck("report", str(stored))
    _refused(done, "checks[3].findings[0].where.step: input should be a valid integer")
    assert "'twelve'" in done.stderr


def test_bad_targets_exit_2(rnncheck: Any, stored: Path, tmp_path: Path) -> None:
    _refused(rnncheck("report", str(stored), "--report", "sarf"), "did you mean 'sarif'?")
    target = f"json={tmp_path}/no/such/r.json"
    _refused(rnncheck("report", str(stored), "--report", target), "does not exist")


def test_nothing_stored_exits_2(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    _refused(rnncheck("report", str(tmp_path)), "no stored run in")


def _refused(done: Any, said: str) -> None:
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
