"""Stored results: one JSON object per run, versioned, written atomically, checked when read."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncheck.errors import OutputError, Place, UserError
from rnncheck.printable import json_text
from rnncheck.results.cells import cells_from_json
from rnncheck.results.encode import event_to_json, restore_cells, run_to_json
from rnncheck.results.files import check_writable, write_atomic
from rnncheck.results.model import READABLE, Run
from rnncheck.results.stranger import ACCEPTED, difference, read_json, short

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

__all__ = [
    "default_store",
    "dumps",
    "event_to_json",
    "find_latest",
    "from_json",
    "read_run",
    "run_to_json",
    "store_run",
    "write_run",
]

_RUNS = Path(".rnncheck") / "runs"
LATEST = "latest.json"
_FORMATS = " and ".join(map(str, READABLE))
_FULL = (errno.ENOSPC, errno.EDQUOT)  # what passes before the end of a run, or does not
_PART = 60  # characters of a key that a message shows
_LONGEST_RUN = 10 * 365 * 86_400.0  # seconds: ten years, beyond which a report has no date
_LARGEST_COUNT = 2**31  # as the readers of reports take it for lines and columns


@cache
def adapter() -> TypeAdapter[Run]:
    """Pydantic's reader of stored runs; pydantic is imported when it is first needed."""
    from pydantic import TypeAdapter

    return TypeAdapter(Run)


def dumps(run: Run) -> str:
    """The stored form of ``run``."""
    return json_text(run_to_json(run), indent=2) + "\n"


def write_run(run: Run, path: Path) -> None:
    """Store ``run`` at ``path``, atomically."""
    write_atomic(path, dumps(run))


def from_json(data: dict[str, Any], place: Place | None = None) -> Run:
    """The run that ``run_to_json`` made ``data`` from.

    A UserError says what does not fit and where in it.
    """
    from pydantic import ValidationError

    _check_format(data, place)
    try:
        run = adapter().validate_python({**data, "cells": restore_cells(data.get("cells", []))})
    except ValidationError as error:
        raise _violation(error, place) from error
    return run


def read_run(path: Path) -> Run:
    """The run stored at ``path``, whoever stored it: all of it fits the model, the cells too.

    Raises UserError.
    """
    place = Place(str(path))
    data = read_json(path)
    run = from_json(data, place)
    for _ in cells_from_json(run.cells, place):
        pass
    if said := _implausible(run) or difference(data, run_to_json(run)):
        raise UserError(said, place=place, accepted=ACCEPTED)
    return run


def _implausible(run: Run) -> str:
    """What no run can have: times, counts and lines are finite and at least 0."""
    parts = [run, *run.stages, *run.checks, *run.gate]
    for part in parts:
        seconds = getattr(part, "seconds", 0.0)
        if not 0 <= seconds < _LONGEST_RUN:
            return f"seconds: a run does not take {seconds} s"
    sources = [one.source for one in run.findings if one.source is not None]
    counts = [
        *(n for one in sources for n in (one.line, one.column, *(line for line, _ in one.frame))),
        *(n for item in run.gate for n in (item.line, item.column)),
        *(check.compared for check in run.checks),
    ]
    wrong = [n for n in counts if not 0 <= n < _LARGEST_COUNT]
    return f"{wrong[0]} is no line, column or count" if wrong else ""


def _check_format(data: object, place: Place | None) -> None:
    if not isinstance(data, dict) or "format" not in data:
        raise UserError(
            "this is no stored result: `format` is missing", place=place, accepted=ACCEPTED
        )
    found = data["format"]
    if type(found) is not int or found not in READABLE:
        raise UserError(
            f"this result has format {short(found)}; this rnncheck reads formats {_FORMATS}",
            place=place,
            hint=(
                "read it with the rnncheck that wrote it (see `tool` in the file), or run `rnncheck"
                " verify` again"
            ),
        )


def _violation(error: ValidationError, place: Place | None) -> UserError:
    """The first thing that does not fit, named by its path in the file: ``checks[0].outcome``, and
    how many more there are."""
    first, *others = error.errors(include_url=False, include_context=False)
    parts = (part if isinstance(part, int) else str(part)[:_PART] for part in first["loc"])
    inside = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    more = f" (and {len(others)} more)" if others else ""
    problem = first["msg"][:1].lower() + first["msg"][1:]
    return UserError(
        f"{inside.lstrip('.')}: {problem}, found {short(first['input'])}{more}",
        place=place,
        accepted=ACCEPTED,
    )


def default_store(spec_path: Path) -> Path:
    """A new file for a run of this spec: ``.rnncheck/runs/<UTC time>-<short hash>.json`` beside
    it."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    unique = f"{spec_path} {time.time_ns()} {os.getpid()}"
    unique_part = hashlib.sha256(unique.encode(errors="backslashreplace")).hexdigest()[:8]
    return spec_path.absolute().parent / _RUNS / f"{now}-{unique_part}.json"


def prepare_store(path: Path) -> None:
    """Make the folder of ``default_store``, ignored by git, or raise an OutputError before any work
    is done; a disk that is full now is told when the run is stored.

    Nothing is written where a link leads out of the spec's folder, since who wrote the spec's
    folder would choose which file is replaced: ``.rnncheck`` or ``runs`` as such a link is refused,
    a ``latest.json`` that is a link is replaced, a ``.gitignore`` that is one is left alone.
    """
    try:
        make_folders(path.parent)
        check_writable(path)
        ignore = path.parent.parent / ".gitignore"
        if not os.path.lexists(ignore):
            write_atomic(ignore, "*\n", follow=False)
    except OutputError as error:
        if getattr(error.__cause__, "errno", None) not in _FULL:
            raise


def make_folders(runs: Path) -> None:
    """``.rnncheck`` and a folder in it, in the spec's folder alone. Raises OutputError."""
    store = runs.parent
    try:
        for folder in (store, runs):
            folder.mkdir(exist_ok=True)
        inside = runs.resolve().is_relative_to(store.parent.resolve())
    except (OSError, RuntimeError) as error:  # a loop of links
        problem = f"the folder for results cannot be made: {getattr(error, 'strerror', error)}"
        raise OutputError(problem, place=Place(str(runs))) from error
    if not inside:
        raise OutputError(
            "the folder for results is a link that leads out of the spec's folder",
            place=Place(str(runs)),
            hint="remove the link: results are stored beside the spec alone",
        )


def store_run(run: Run, path: Path) -> None:
    """Store ``run`` at a path from ``default_store``, and as ``latest.json`` beside it.

    A folder that was removed meanwhile is made again. Raises OutputError.
    """
    make_folders(path.parent)
    text = dumps(run)
    write_atomic(path, text, follow=False)
    write_atomic(path.with_name(LATEST), text, follow=False)


def find_latest(start: Path) -> Path:
    """The latest stored run of ``start`` or, upward to the repository root, of a folder around
    it."""
    for folder in _upward(start.resolve()):
        for runs in (folder / _RUNS, folder / "runs", folder):
            if (runs / LATEST).is_file():
                return runs / LATEST
    raise UserError(
        f"no stored run in {str(start)!r} or above it",
        accepted="a stored result, or a folder that has a `.rnncheck`",
        hint="run `rnncheck verify` first",
    )


def _upward(folder: Path) -> list[Path]:
    """``folder`` and its parents, up to the one that holds ``.git``."""
    found = []
    for candidate in (folder, *folder.parents):
        found.append(candidate)
        if (candidate / ".git").exists():
            break
    return found
