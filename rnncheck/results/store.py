"""Stored results: one JSON object per run, versioned, written atomically, checked when read."""

from __future__ import annotations

import hashlib
import json
import os
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncheck.errors import Place, UserError
from rnncheck.results.encode import event_to_json, restore_cells, run_to_json
from rnncheck.results.files import check_writable, write_atomic
from rnncheck.results.model import READABLE, Run

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


@cache
def adapter() -> TypeAdapter[Run]:
    """Pydantic's reader of stored runs; pydantic is imported when it is first needed."""
    from pydantic import TypeAdapter

    return TypeAdapter(Run)


def dumps(run: Run) -> str:
    """The stored form of ``run``."""
    return json.dumps(run_to_json(run), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


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
    """The run stored at ``path``."""
    place = Place(str(path))
    text = _read(path, place)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        at = Place(str(path), error.lineno, error.colno)
        raise UserError(f"this is not JSON: {error.msg}", place=at, accepted=_ACCEPTED) from error
    except (ValueError, RecursionError) as error:  # a number of 5000 digits, 10^5 brackets
        raise UserError("this JSON cannot be read", place=place, accepted=_ACCEPTED) from error
    return from_json(data, place)


_ACCEPTED = "a result that `rnncheck verify` stored, or its `--report json=PATH`"


def _read(path: Path, place: Place) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        problem = "there is no such file"
    except IsADirectoryError:
        problem = "this is a folder, not a stored result"
    except UnicodeDecodeError:
        problem = "this is not a text file"
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise UserError(problem, place=place, accepted=_ACCEPTED)


def _check_format(data: object, place: Place | None) -> None:
    if not isinstance(data, dict) or "format" not in data:
        raise UserError(
            "this is no stored result: `format` is missing", place=place, accepted=_ACCEPTED
        )
    found = data["format"]
    if type(found) is not int or found not in READABLE:
        raise UserError(
            f"this result has format {found!r}; this rnncheck reads formats {_FORMATS}",
            place=place,
            hint=(
                "read it with the rnncheck that wrote it (see `tool` in the file), or run `rnncheck"
                " verify` again"
            ),
        )


def _violation(error: ValidationError, place: Place | None) -> UserError:
    """The first thing that does not fit, named by its path in the file: ``checks[0].outcome``."""
    first, *others = error.errors(include_url=False, include_context=False)
    inside = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    more = f" (and {len(others)} more)" if others else ""
    problem = first["msg"][:1].lower() + first["msg"][1:]
    return UserError(
        f"{inside.lstrip('.')}: {problem}, found {_short(first['input'])}{more}",
        place=place,
        accepted=_ACCEPTED,
    )


def _short(value: object, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def default_store(spec_path: Path) -> Path:
    """A new file for a run of this spec: ``.rnncheck/runs/<UTC time>-<short hash>.json`` beside
    it."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    unique = f"{spec_path} {time.time_ns()} {os.getpid()}"
    short = hashlib.sha256(unique.encode(errors="backslashreplace")).hexdigest()[:8]
    return spec_path.parent / _RUNS / f"{now}-{short}.json"


def prepare_store(path: Path) -> None:
    """Make the folder of ``default_store``, ignored by git, or raise an OutputError before any work
    is done."""
    from rnncheck.errors import OutputError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"the folder for results cannot be made: {error.strerror}"
        raise OutputError(problem, place=Place(str(path.parent))) from error
    check_writable(path)
    ignore = path.parent.parent / ".gitignore"
    if not ignore.exists():
        write_atomic(ignore, "*\n")


def store_run(run: Run, path: Path) -> None:
    """Store ``run`` at a path from ``default_store``, and as ``latest.json`` beside it."""
    write_run(run, path)
    write_run(run, path.with_name(LATEST))


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
