"""``--report FORMAT[=PATH]``: what is refused, and that it is refused before any work."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from rnncheck.errors import OutputError
from rnncheck.report.formats import FORMATS, Target, live_writers, parse_targets, write_reports
from rnncheck.results.events import CheckFinished, RunFinished
from tests.report.canned import BROKEN


def refusal(*values: str) -> str:
    with pytest.raises(OutputError) as caught:
        parse_targets(values)
    return str(caught.value)


def test_console_is_the_default() -> None:
    assert parse_targets([]) == [Target("console")]


def test_several_targets(tmp_path: Path) -> None:
    values = ["console", f"json={tmp_path / 'a=b.json'}", "github"]
    assert parse_targets(values) == [
        Target("console"),
        Target("json", tmp_path / "a=b.json"),
        Target("github"),
    ]
    assert list(tmp_path.iterdir()) == []


def test_the_same_target_twice_is_one() -> None:
    assert parse_targets(["json", "json=-"]) == [Target("json")]


def test_an_unknown_format_names_the_nearest() -> None:
    said = refusal("junt=x.xml")
    assert "unknown report format 'junt'" in said
    assert "did you mean 'junit'?" in said
    assert all(form in said for form in FORMATS)


def test_two_formats_on_standard_output_are_refused() -> None:
    assert "json and sarif would mix on standard output" in refusal("json", "sarif")
    assert "--report json=FILE" in refusal("console", "json")
    assert len(parse_targets(["console", "github"])) == 2


def test_an_empty_path_is_refused() -> None:
    assert "--report json= names no file" in refusal("json=")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    said = refusal(f"json={tmp_path / 'no' / 'r.json'}")
    assert "does not exist" in said and "create it first" in said
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "this is a folder, not a file" in refusal(f"json={tmp_path}")


def test_a_name_that_is_no_path_is_refused(tmp_path: Path) -> None:
    assert "no usable path" in refusal(f"json={tmp_path}/a\0b")
    assert "cannot be written: File name too long" in refusal(f"json={tmp_path / ('x' * 300)}")


def test_one_file_for_two_formats_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "r")
    said = refusal(f"json={tmp_path / 'r'}", f"sarif={tmp_path / 'link'}")
    assert "json and sarif would both be written to" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission_is_refused(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    assert "cannot be written: Permission denied" in refusal(f"json={locked / 'r.json'}")


def test_a_step_summary_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert "the step summary cannot be written" in refusal("github")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_an_output_error() -> None:
    targets = parse_targets(["json=/dev/full"])
    with pytest.raises(OutputError, match="cannot be written: No space left on device"):
        write_reports(BROKEN, targets, io.StringIO())


def test_everything_is_written_from_one_run(tmp_path: Path) -> None:
    targets = parse_targets([f"{form}={tmp_path / form}" for form in FORMATS])
    out = io.StringIO()
    write_reports(BROKEN, targets, out)
    assert out.getvalue() == ""
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(FORMATS)
    assert (tmp_path / "benchmark").read_text() == "[]\n"  # this run has no cells
    assert all("WR103" in (tmp_path / form).read_text() for form in set(FORMATS) - {"benchmark"})


def test_the_live_format_is_not_written_twice() -> None:
    targets = parse_targets(["jsonl"])
    out = io.StringIO()
    (write,) = live_writers(targets, out)
    write(CheckFinished(BROKEN.checks[0]))
    write(RunFinished(BROKEN))
    write_reports(BROKEN, targets, out, live=True)
    events = [json.loads(line)["event"] for line in out.getvalue().splitlines()]
    assert events == ["check-finished", "run-finished"]


def test_other_formats_are_not_live(tmp_path: Path) -> None:
    assert live_writers([Target("console"), Target("jsonl", tmp_path / "x")], io.StringIO()) == []
