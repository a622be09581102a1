"""Checks that are not rnncheck's own: of the user's modules, and of installed packages. No torch.

A module of checks defines ``RULE``, as each of rnncheck's own files does; of a package every module
that does counts.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from rnncheck.checks.catalogue import Catalogue, Entry, builtin, read
from rnncheck.errors import Place, UserError
from rnncheck.results.families import BY_PREFIX, OWN_CHECKS

if TYPE_CHECKING:
    from rnncheck.spec.model import Spec

GROUP = "rnncheck.checks"  # of the entry points
CODE = r"[A-Z]{2,6}\d{3}"
NAME = r"[a-z0-9]+(-[a-z0-9]+)*"


def installed_catalogue() -> Catalogue:
    """rnncheck's own checks and those of installed packages. Raises UserError for one that cannot
    be read."""
    found = [entry for point in entry_points(group=GROUP) for entry in _of_package(point)]
    return _joined(builtin().entries, found)


def catalogue_of(spec: Spec) -> Catalogue:
    """The checks that may be asked of ``spec``: with those of its ``checks``. Raises UserError."""
    found = [
        entry
        for index, name in enumerate(spec.checks)
        for entry in _entries(name, spec.folder, spec.locate(("checks", index)))
    ]
    return _joined(installed_catalogue().entries, found)


def _of_package(point: EntryPoint) -> Iterator[Entry]:
    package = point.dist.name if point.dist is not None else "an installed package"
    yield from _entries(point.module, None, Place(f"{package}, entry point {point.name!r}"))


def _joined(known: tuple[Entry, ...], found: list[Entry]) -> Catalogue:
    every = list(known)
    for entry in found:
        _check_identity(entry, every)
        every.append(entry)
    return Catalogue(tuple(every))


def _entries(name: str, folder: Path | None, place: Place) -> Iterator[Entry]:
    """The checks of the module or package ``name``, none of whose code is run."""
    spec = _located(name, folder)
    if spec is None or not (spec.origin or spec.submodule_search_locations):
        where = f"in {folder} or on the import path" if folder else "on the import path"
        raise UserError(
            f"there is no module {name!r} of checks",
            place=place,
            accepted=f"a module or package {where}",
        )
    if spec.submodule_search_locations is None:
        yield _read(Path(str(spec.origin)), name, place)
        return
    modules = dict(_modules(name, [Path(one) for one in spec.submodule_search_locations]))
    defining = {key: file for key, file in modules.items() if "RULE" in file.read_text("utf-8")}
    if not defining:
        raise UserError(
            f"no module of the package {name!r} defines a check",
            place=place,
            accepted="modules with RULE = Rule(code=..., name=..., ...)",
        )
    yield from (_read(file, module, place) for module, file in defining.items())


def _located(name: str, folder: Path | None) -> ModuleSpec | None:
    """Where a module lies, found without importing it or a package around it where that can be."""
    path = None if folder is None else [str(folder), *sys.path]
    found = None
    for part in accumulate(name.split("."), "{}.{}".format):
        found = PathFinder.find_spec(part, path)
        if found is None:
            break
        path = list(found.submodule_search_locations or [])
    try:
        return found or importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _modules(package: str, folders: list[Path]) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            yield ".".join([package, *(part for part in parts if part != "__init__")]), file


def _read(file: Path, module: str, place: Place) -> Entry:
    try:
        return read(file, module, OWN_CHECKS.folder)
    except SyntaxError as error:
        at = Place(str(file), error.lineno or 0, error.offset or 0)
        raise UserError(f"the checks of {module!r} are no Python: {error.msg}", place=at) from None
    except (LookupError, OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"the module {module!r} holds no check: {error.args[0] if error.args else error}",
            place=place,
            hint="`rnncheck rule` and docs/checks.md show how a check is written",
        ) from None


def _check_identity(entry: Entry, known: list[Entry]) -> None:
    """Codes and names are unique, and rnncheck's families are its own."""
    place = Place(str(entry.file))
    if not re.fullmatch(CODE, entry.code) or entry.code[:2] in BY_PREFIX:
        raise UserError(
            f"{entry.code!r} is no code for a check of your own",
            place=place,
            accepted="two to six capitals and three digits, e.g. MY001, "
            f"not beginning with {', '.join(BY_PREFIX)}",
        )
    if not re.fullmatch(NAME, entry.name):
        accepted = "small letters, digits and hyphens, e.g. memory-never-used"
        raise UserError(f"{entry.name!r} is no name for a check", place=place, accepted=accepted)
    for other in known:
        if entry.code == other.code or entry.name == other.name:
            raise UserError(
                f"{entry.code} {entry.name} is there already: {other.code} {other.name} "
                f"in {other.file}",
                place=place,
            )
