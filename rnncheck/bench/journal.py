"""The sweep's journal: finished cells as JSON lines, appended as they come, read again by
``--resume``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rnncheck.bench.journal_lines import read_journal
from rnncheck.errors import OutputError, Place, UserError
from rnncheck.results.cells import CellResult, Status, cell_to_json
from rnncheck.results.model import Environment, SpecRef
from rnncheck.results.stranger import short

_JOURNAL_FORMAT = 1
_UNMEASURED = (Status.SKIPPED,)  # such a cell was not measured: a resumed sweep takes it up


class Journal:
    """One file: a head that says what the cells belong to, then a line for each finished cell."""

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path = path
        self._head = head

    def start(self) -> None:
        """Begin anew. Raises OutputError."""
        self._write(json.dumps({"head": self._head}) + "\n", "w")

    def add(self, result: CellResult) -> None:
        """Append a finished cell; it is on the disk when this returns. Raises OutputError (a full
        disk)."""
        self._write(json.dumps(cell_to_json(result), ensure_ascii=False) + "\n", "a")

    def _write(self, text: str, mode: str) -> None:
        self._refuse_link()
        try:
            with self.path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise self._unwritten(error) from error

    def _refuse_link(self) -> None:
        """Whoever wrote the spec's folder must not choose which file is written."""
        if self.path.is_symlink():
            raise OutputError(
                "this is a link: the sweep's results are not written through it",
                place=Place(str(self.path)),
                hint="remove the link",
            )

    def _unwritten(self, error: OSError) -> OutputError:
        return OutputError(
            f"the sweep's results cannot be written: {error.strerror or error}",
            place=Place(str(self.path)),
            hint="make room and go on with `rnncheck bench --resume`",
        )

    def resume(self) -> dict[str, CellResult]:
        """The finished cells by key, of the same spec, environment and code.

        A last line that was cut off (a full disk, a power cut) is dropped, from the file too: what
        is appended begins a line. Raises UserError where the file is missing, belongs to something
        else, or holds what no sweep writes; whoever wrote it, the file is then as it was.
        """
        self._refuse_link()
        if not self.path.is_file():
            raise UserError(
                "there is no sweep to resume",
                place=Place(str(self.path)),
                hint="start one with `rnncheck bench`",
            )
        head, found = read_journal(self.path)
        self._check(head)
        self._drop_cut_off()
        return {one.cell.key: one for one in found if one.status not in _UNMEASURED}

    def _drop_cut_off(self) -> None:
        try:
            with self.path.open("r+b") as file:
                file.truncate(file.read().rfind(b"\n") + 1)
        except OSError as error:
            raise self._unwritten(error) from error

    def _check(self, other: dict[str, Any]) -> None:
        differing = [name for name in self._head if self._head[name] != other.get(name)]
        if differing:
            name = differing[0]
            raise UserError(
                f"the sweep cannot be resumed: its {name} is another "
                f"({short(other.get(name))} then, {short(self._head[name])} now)",
                place=Place(str(self.path)),
                hint="start a new one with `rnncheck bench`",
            )


def head_of(spec: SpecRef, environment: Environment, code: str, engine: str) -> dict[str, Any]:
    """What cells must share to stand in one table: spec, machine or cluster, libraries, the user's
    own code."""
    return {
        "format": _JOURNAL_FORMAT,
        "spec": spec.hash,
        "code": code,
        "engine": engine,
        "environment": json.loads(json.dumps(asdict(environment))),
    }
