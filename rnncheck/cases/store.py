"""Cases in a folder beside the spec: ``.rnncheck/cases/<id>/case.json`` and
``tensors.safetensors``; of a script also what was seen of it, ``seen.zip``.

The folder is bounded: where it grows beyond ``MOST_CASES`` or ``MOST_BYTES``, the oldest go.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncheck.cases.model import CASE_FORMAT, CaseError, StoredCase
from rnncheck.errors import OutputError, Place, UserError, did_you_mean
from rnncheck.printable import json_text
from rnncheck.results.files import write_atomic
from rnncheck.results.plain import fields_of
from rnncheck.results.store import make_folders
from rnncheck.results.stranger import bounded_text, short, strict_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

CASES = Path(".rnncheck") / "cases"
CASE_FILE, TENSOR_FILE = "case.json", "tensors.safetensors"
SEEN_FILE = "seen.zip"  # what `rnncheck run --save` keeps, of a script
MOST_CASES = 50  # chosen: many more than anyone has open at a time
MOST_BYTES = 256 * 2**20  # of all cases in a folder
STORED_CASE = "a case that rnncheck stored"
_INSIDE = range(4)  # folders below the working folder; chosen: where scripts and specs are
_ABOVE = len(CASES.parts)  # folders between a case and its spec
_ID = re.compile(r"[a-z0-9_]{1,40}-[0-9a-f]{8}", re.ASCII)


@cache
def _reader() -> TypeAdapter[StoredCase]:
    from pydantic import TypeAdapter

    return TypeAdapter(StoredCase)


def case_id(code: str, *parts: str) -> str:
    """``ls701-3fa2b1c0``: the same for the same case."""
    digest = hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()
    plain = re.sub(r"[^a-z0-9_]", "_", code.lower())[:40]
    return f"{plain}-{digest[:8]}"


def write_case(case: StoredCase, folder: Path, write_more: Callable[[Path], None]) -> None:
    """Store ``case`` in the ``.rnncheck`` of ``folder`` with what ``write_more`` puts into its
    folder, and let the oldest go. Raises OutputError."""
    make_folders(folder / CASES)
    _ignored(folder)
    target = folder / CASES / case.id
    beside = target.with_name(f".{secrets.token_hex(6)}.tmp")
    try:
        beside.mkdir()
        write_more(beside)
        write_atomic(beside / CASE_FILE, json_text(fields_of(case), indent=2) + "\n", follow=False)
        _discard(target)
        beside.rename(target)
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise OutputError(f"cannot be written: {said}", place=Place(str(target))) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    _bound(folder, case.id)


def _ignored(folder: Path) -> None:
    """git passes the folder over."""
    ignore = folder / CASES.parent / ".gitignore"
    if not os.path.lexists(ignore):
        write_atomic(ignore, "*\n", follow=False)


def _discard(folder: Path) -> None:
    """Remove a case; of a link the link alone."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def _bound(folder: Path, kept: str) -> None:
    """Remove the oldest cases but ``kept`` until the rest is within the bounds."""
    found = sorted(case_folders(folder), key=_changed, reverse=True)
    found.sort(key=lambda path: path.name != kept)
    room = MOST_BYTES
    for number, path in enumerate(found):
        room -= sum(_size(file) for file in path.iterdir())
        if number >= MOST_CASES or (room < 0 and path.name != kept):
            with suppress(OSError):
                _discard(path)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:
        return 0


def case_folders(folder: Path) -> list[Path]:
    """The folders of the cases that are stored in ``folder``."""
    try:
        inside = sorted((folder / CASES).iterdir())
    except OSError:
        return []
    return [path for path in inside if _ID.fullmatch(path.name) and path.is_dir()]


def store_of(start: Path) -> Path:
    """The folder with cases that is ``start`` or, upward to the repository root, around it."""
    for candidate in (start, *start.parents):
        if (candidate / CASES).is_dir():
            return candidate
        if (candidate / ".git").exists():
            break
    raise CaseError(
        f"no case is stored in {str(start)!r} or above it",
        accepted="the folder of a spec that `rnncheck verify` found a fault in",
    )


def find_case(name: str, start: Path) -> Path:
    """The folder of the case with this id, or at this path."""
    given = Path(name)
    with suppress(OSError):  # a name that is too long for a file
        if name and (given / CASE_FILE).is_file():
            return given.resolve()
    if (below := _below(start, name.lower())) is not None:
        return below
    store = store_of(start.resolve())
    known = case_folders(store)
    found = next((path for path in known if path.name == name.lower()), None)
    if found is None:
        ids = [path.name for path in known]
        raise CaseError(
            f"there is no case {short(name)} in {str(store / CASES)!r}",
            accepted=", ".join(ids[:10]) or "none is stored",
            hint=did_you_mean(name, ids),
        )
    return found


def _below(start: Path, case: str) -> Path | None:
    """The case in a folder inside ``start``: of a script or a spec that was named with its path."""
    if not _ID.fullmatch(case):
        return None
    depths = (start.glob("/".join([*["*"] * depth, str(CASES), case])) for depth in _INSIDE)
    return next((one for found in depths for one in found if one.is_dir()), None)


def read_case(folder: Path) -> StoredCase:
    """The case in ``folder``, whoever stored it. Raises CaseError."""
    from pydantic import ValidationError

    place = Place(str(folder / CASE_FILE))
    try:
        data = strict_json(bounded_text(folder / CASE_FILE, STORED_CASE), place, STORED_CASE)
    except UserError as error:
        raise CaseError(error.message, place=place, accepted=STORED_CASE) from error
    _check_case_format(data, place)
    try:
        return _reader().validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        at = ".".join(str(part)[:60] for part in first["loc"])
        said = f"{at}: {first['msg'][:1].lower()}{first['msg'][1:]}"
        raise CaseError(said, place=place, accepted=STORED_CASE) from error


def _check_case_format(data: Any, place: Place) -> None:
    found = data.get("format") if isinstance(data, dict) else None
    if type(found) is not int:
        said = "this is no stored case: `format` is missing"
        raise CaseError(said, place=place, accepted=STORED_CASE)
    if found != CASE_FORMAT:
        raise CaseError(
            f"this case has format {short(found)}; this rnncheck runs format {CASE_FORMAT}",
            place=place,
            hint="run it with the rnncheck that stored it, or `rnncheck verify` again",
        )


def _is_stored(folder: Path) -> bool:
    """Whether this is the folder of a case where ``write_case`` puts it."""
    return folder.parts[-3:-1] == CASES.parts and _ID.fullmatch(folder.name) is not None


def prune_cases(folders: list[Path]) -> int:
    """Remove these cases, and say how many. Raises CaseError where one cannot be, and before any
    goes where one is no folder that ``write_case`` made: what else lies in it is the user's."""
    for path in folders:
        if not _is_stored(path.absolute()):
            raise CaseError(
                f"this does not lie in {str(CASES)!r}; nothing is removed",
                place=Place(str(path)),
                hint="`rnncheck replay --list` names what --prune removes",
            )
    for path in folders:
        try:
            _discard(path)
        except OSError as error:
            said = error.strerror or type(error).__name__
            raise CaseError(f"cannot be removed: {said}", place=Place(str(path))) from error
    return len(folders)


def spec_text(case: StoredCase) -> str:
    """The stored spec as a text that loads."""
    return json.dumps(case.spec)


def spec_of_case(case: StoredCase, folder: Path) -> Path:
    """Where the spec lies, or lay; of a case that was put elsewhere, beside its folder."""
    here = folder.resolve()
    above = _ABOVE if _is_stored(here) else 0
    return here.joinpath(*[os.pardir] * (above + 1)).resolve() / Path(case.spec_file).name
