"""The journal: what was finished is not lost, and what belongs to something else is not mixed
in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rnncheck.bench.journal import Journal
from rnncheck.errors import OutputError, UserError
from rnncheck.results.cells import Cell, CellResult, Phase, Status
from rnncheck.results.files import code_hash
from rnncheck.results.variant import Variant

HEAD = {"format": 1, "spec": "abc", "code": "def", "environment": {"cpu": "x"}}
DONE = CellResult(Cell(Phase.ACT, Variant(), 2, 1, 0.0), Status.CANNOT, "no CUDA")
LAST = CellResult(Cell(Phase.ACT, Variant("scan"), 4, 1, 0.0), Status.FAILED, "ValueError: no")
LEFT = CellResult(Cell(Phase.ACT, Variant("scan"), 2, 1, 0.0), Status.SKIPPED, "interrupted")


def test_finished_cells_come_back_and_skipped_ones_are_measured_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "sweep.jsonl", HEAD)
    journal.start()
    journal.add(DONE)
    journal.add(LEFT)
    assert journal.resume() == {DONE.cell.key: DONE}


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    journal = Journal(path, HEAD)
    journal.start()
    journal.add(DONE)
    whole = path.read_text()
    path.write_text(whole + '{"key": "12', encoding="utf-8")
    assert list(journal.resume()) == [DONE.cell.key]
    assert path.read_text() == whole
    journal.add(LAST)  # on a line of its own
    assert list(journal.resume()) == [DONE.cell.key, LAST.cell.key]


@pytest.mark.parametrize("name", ["spec", "code", "environment"])
def test_another_spec_code_or_machine_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "sweep.jsonl"
    Journal(path, HEAD).start()
    with pytest.raises(UserError, match=f"its {name} is another"):
        Journal(path, {**HEAD, name: "other"}).resume()


def test_no_sweep_and_no_journal_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    with pytest.raises(UserError, match="no sweep to resume"):
        Journal(path, HEAD).resume()
    for text in ("", "[]\n", "{}\n", json.dumps({"head": HEAD})):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match="no journal"):
            Journal(path, HEAD).resume()
        assert path.read_text() == text


def test_a_full_disk_says_how_to_go_on() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(OutputError, match="--resume"):
        Journal(full, HEAD).add(DONE)


def test_the_code_is_the_python_beside_the_spec(tmp_path: Path) -> None:
    before = code_hash(tmp_path)
    (tmp_path / "mine.py").write_text("x = 1\n", encoding="utf-8")
    assert code_hash(tmp_path) != before


def test_an_editors_lock_does_not_stop_the_hash(tmp_path: Path) -> None:
    """Emacs leaves a dangling link beside a file that is changed and not saved."""
    (tmp_path / "mine.py").write_text("x = 1")
    before = code_hash(tmp_path)
    (tmp_path / ".#mine.py").symlink_to("somebody@somewhere.1234")
    locked = code_hash(tmp_path)
    (tmp_path / "mine.py").write_text("x = 2")
    assert len({before, locked, code_hash(tmp_path)}) == 3
