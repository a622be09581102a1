"""A journal of a stranger: refused in one sentence, with its line, or read as it was written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rnncheck.bench import journal_lines
from rnncheck.bench.journal import Journal
from rnncheck.bench.journal_lines import MAX_LINES, read_journal
from rnncheck.errors import UserError
from rnncheck.results import stranger
from rnncheck.results.cells import Accuracy, CellResult, cell_to_json
from tests.bench.rows import row

HEAD = {"format": 1, "spec": "abc"}
WHOLE = row("scan", 0.5, against=1.0)


def text_of(*lines: Any) -> str:
    return "".join(json.dumps(line) + "\n" for line in ({"head": HEAD}, *lines))


def read(tmp_path: Path, text: str) -> list[CellResult]:
    path = tmp_path / "sweep.jsonl"
    path.write_text(text, encoding="utf-8")
    head, found = read_journal(path)
    assert head == HEAD
    return found


def test_what_a_sweep_writes_is_read_as_it_was(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "sweep.jsonl", HEAD)
    journal.start()
    infinite = row("pad", 1.0)
    infinite = CellResult(infinite.cell, infinite.status, accuracy=Accuracy(float("inf"), 1e-6))
    lines = CellResult(infinite.cell, infinite.status, "ValueError: a\u2028b\x0bc\x1b[2J")
    for one in (WHOLE, infinite, lines):
        journal.add(one)
    assert read_journal(journal.path) == (HEAD, [WHOLE, infinite, lines])


def changed(*path: str | int, to: Any) -> dict[str, Any]:
    """A row with another value at ``path``."""
    data: Any = json.loads(json.dumps(cell_to_json(WHOLE)))
    at = data
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = to
    return dict(data)


ODD: list[tuple[Any, str]] = [
    ([], "no journal of a sweep"),
    ({"key": "x"}, "field required"),
    (changed("cell", "batch", to="4"), "cell.batch"),
    (changed("cell", "batch", to=0), "cell.batch: 0 is no size"),
    (changed("cell", "batch", to=2**40), "is no size"),
    (changed("cell", "steps", to=True), "is meant, found"),
    (changed("cell", "resets", to=7.0), "cell.resets: 7.0 is no probability"),
    (changed("cell", "variant", to="pda"), "names no recurrent backend"),
    (changed("key", to="000000000000"), "key: "),
    (changed("label", to="x"), "label: "),
    (changed("more", to=1), "its fields are not those of a cell"),
    (changed("status", to="tired"), "status: "),
    (changed("reason", to=3), "reason: "),
    (changed("samples", "wall", 0, to=-1.0), "a call does not take -1.0 s"),
    (changed("samples", "wall", 0, to=0.0), "a call does not take 0 s"),
    (changed("samples", "wall", 0, to="nan"), "a call does not take nan s"),
    (changed("samples", "wall", 0, to="inf"), "a call does not take inf s"),
    (changed("samples", "wall", to=[1.0]), "are not of one length"),
    (changed("samples", "workers", to=[1]), "are not of one length"),
    (changed("samples", "rounds", 0, to=7), "they do not ascend"),
    (changed("samples", "rounds", 0, to=-1), "-1 is no count"),
    (changed("samples", "repetitions", to=0), "0 is no count"),
    (changed("timing", "low", to=9.0), "its median is not within its interval"),
    (changed("timing", "median", to="nan"), "its median is not within its interval"),
    (changed("timing", "samples", to=5), "timing.samples: 5 of 8"),
    (changed("ratio", "low", to=-1.0), "its value is not within its interval"),
    (changed("memory", "peak", to=-1), "memory: -1 is no size"),
    (changed("first_call", to=-1.0), "first_call: a call does not take -1.0 s"),
]


@pytest.mark.parametrize(("line", "said"), ODD, ids=[said for _, said in ODD])
def test_a_row_that_no_sweep_writes_is_named_with_its_line(
    tmp_path: Path, line: Any, said: str
) -> None:
    with pytest.raises(UserError) as raised:
        read(tmp_path, text_of(cell_to_json(WHOLE), line))
    assert said in raised.value.message
    assert raised.value.place is not None and raised.value.place.line == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("NaN", "this is not JSON: it has no NaN"),
        ('{"a": Infinity}', "this is not JSON: it has no Infinity"),
        ("\x1b[2Jhello", "this is not JSON"),
        ("[" * 10**5, "cannot be read"),
        ('{"a": 1' + "0" * 5000 + "}", "cannot be read"),
        ('{"a": ' + "[" * 40 + "]" * 40 + "}", "levels deep"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_a_line_that_is_no_json_is_refused(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(tmp_path, text_of() + line + "\n")


def test_its_size_and_its_lines_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=f"more than {MAX_LINES} lines"):
        read(tmp_path, text_of() + "{}\n" * 10**6)
    monkeypatch.setattr(stranger, "MAX_SIZE", 2**20)
    with pytest.raises(UserError, match="larger than 1 MiB"):
        read(tmp_path, text_of() + " " * 2**20 + "\n")
    assert journal_lines.MAX_LINES == MAX_LINES


def test_what_is_no_file_is_no_sweep(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    os.mkfifo(path)
    with pytest.raises(UserError, match="no sweep to resume"):
        Journal(path, HEAD).resume()


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [path, *(one for key, item in inner for one in leaves(item, (*path, key)))]


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
Change = Callable[..., dict[str, Any]]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(path=st.sampled_from(leaves(cell_to_json(WHOLE))[1:]), value=VALUES)
def test_any_change_is_refused_or_read_as_it_stands(
    tmp_path: Path, path: tuple[Any, ...], value: Any
) -> None:
    """Nothing but a UserError is raised, and what is accepted is written again as it was read."""
    line = changed(*path, to=value)
    try:
        (found,) = read(tmp_path, json.dumps({"head": HEAD}) + "\n" + json.dumps(line) + "\n")
    except UserError as error:
        assert len(error.message) < 500
        return
    assert stranger.difference(line, cell_to_json(found)) == ""
