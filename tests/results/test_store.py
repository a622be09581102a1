"""Stored results: what is written comes back, atomically, and what is not a result is refused."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from rnncheck.errors import OutputError, UserError
from rnncheck.results import schema, store
from rnncheck.results.events import CheckStarted, Notice
from rnncheck.results.files import check_writable, write_atomic
from rnncheck.results.model import Run, Stage
from tests.report.canned import BROKEN, HEALTHY, HOSTILE_RUN, RUNS
from tests.results import strategies

VALIDATOR = Draft202012Validator(json.loads(schema.FILE.read_text()))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(strategies.RUNS)
def test_any_run_comes_back(run: Run) -> None:
    data = json.loads(store.dumps(run))
    VALIDATOR.validate(data)
    back = store.from_json(data)
    assert repr(back) == repr(run)  # NaN is not equal to itself, but looks the same
    assert store.run_to_json(back) == data


@pytest.mark.parametrize("name", RUNS)
def test_canned_runs_come_back_from_a_file(name: str, tmp_path: Path) -> None:
    store.write_run(RUNS[name], tmp_path / "r.json")
    assert repr(store.read_run(tmp_path / "r.json")) == repr(RUNS[name])


def test_numbers_that_json_has_not() -> None:
    cells = ({"ms": math.inf, "error": [math.nan, -math.inf]},)
    data = store.run_to_json(replace(HOSTILE_RUN, cells=cells))
    assert data["checks"][0]["findings"][0]["measured"] == "nan"
    assert data["checks"][0]["findings"][0]["bound"] == "inf"
    assert data["cells"] == [{"ms": "inf", "error": ["nan", "-inf"]}]
    back = store.from_json(data)
    assert back.cells[0]["ms"] == math.inf
    assert math.isnan(back.cells[0]["error"][0])


def test_a_file_name_that_is_not_utf8_is_spelled_out() -> None:
    run = replace(HEALTHY, notices=(os.fsdecode(b"caf\xe9.yaml"),))
    assert store.from_json(json.loads(store.dumps(run))).notices == ("caf\\udce9.yaml",)


def test_values_of_other_libraries_become_plain() -> None:
    cell: dict[Any, Any] = {"path": Path("a"), 3: {1}}
    run = replace(HEALTHY, cells=(cell,))
    assert json.loads(store.dumps(run))["cells"] == [{"path": "a", "3": "{1}"}]


def test_fields_of_a_later_rnncheck_are_ignored() -> None:
    assert store.from_json({**store.run_to_json(HEALTHY), "later": 1}) == HEALTHY


def test_a_violation_names_its_path() -> None:
    data = store.run_to_json(BROKEN)
    data["checks"][0]["outcome"] = "great"
    with pytest.raises(UserError, match=r"^checks\[0\].outcome: input should be 'passed'"):
        store.from_json(data)


@pytest.mark.parametrize("found", [True, "1", 0, 3, None])
def test_another_format_is_refused(found: object) -> None:
    with pytest.raises(UserError, match="this rnncheck reads formats 1 and 2"):
        store.from_json({**store.run_to_json(BROKEN), "format": found})


def test_the_schema_in_the_package_is_current() -> None:
    assert schema.FILE.read_text() == schema.generate(), (
        "the model changed: run `python -m rnncheck.results.schema` (and raise FORMAT if a field"
        " changed its meaning)"
    )
    Draft202012Validator.check_schema(json.loads(schema.FILE.read_text()))


def test_events_are_named() -> None:
    assert store.event_to_json(Notice("x", at=None)) == {"event": "notice", "text": "x"}
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert store.event_to_json(Notice("x", at=at))["time"] == "2026-01-02T03:04:05.678+00:00"
    started = store.event_to_json(CheckStarted("WR101", "no-recurrent-state", Stage.ENV))
    assert started["event"] == "check-started"
    assert started["stage"] == "env"


def test_the_store_lies_beside_the_spec_and_is_ignored_by_git(tmp_path: Path) -> None:
    spec = tmp_path / "rnncheck.yaml"
    one, other = store.default_store(spec), store.default_store(spec)
    assert one != other
    assert one.parent == tmp_path / ".rnncheck" / "runs"
    store.prepare_store(one)
    assert list(one.parent.iterdir()) == []
    store.store_run(BROKEN, one)
    store.store_run(HEALTHY, other)
    assert store.read_run(one) == BROKEN
    assert store.read_run(one.with_name("latest.json")) == HEALTHY
    assert store.find_latest(tmp_path) == one.with_name("latest.json")
    assert (tmp_path / ".rnncheck" / ".gitignore").read_text() == "*\n"


def test_a_store_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".rnncheck").write_text("a file")
    with pytest.raises(OutputError, match="the folder for results cannot be made"):
        store.prepare_store(store.default_store(tmp_path / "rnncheck.yaml"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("old")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)); "
    code = (
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        f"{limit}from pathlib import Path; from rnncheck.results.files import write_atomic; "
        f"write_atomic(Path({str(path)!r}), 'x' * 1000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"OutputError: {path}: cannot be written: File too large" in done.stderr
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_the_users_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "r.json", tmp_path / "link"
    link.symlink_to(path)
    write_atomic(link, "x")
    assert link.is_symlink() and path.read_text() == "x"
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_devices_are_written_directly() -> None:
    check_writable(Path(os.devnull))
    write_atomic(Path(os.devnull), "x")
    assert not Path(os.devnull).is_file()


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    store.write_run(BROKEN, tmp_path / "r.json")
    code = (
        "import sys; from pathlib import Path; from rnncheck.results.store import read_run;from"
        " rnncheck.report.formats import FORMATS, render;run ="
        f" read_run(Path({str(tmp_path / 'r.json')!r}));[render(run, form) for form in"
        " FORMATS];print([name for name in ('torch', 'tensordict', 'torchrl', 'numpy') if name in"
        " sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
