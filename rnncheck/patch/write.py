"""Writing a patch into the user's files: all of them, or none."""

from __future__ import annotations

import codecs
import stat
from contextlib import suppress
from pathlib import Path

from rnncheck.errors import OutputError, Place
from rnncheck.results.files import check_writable, write_atomic
from rnncheck.results.patch import FileChange, Patch

_BOM = codecs.BOM_UTF8.decode()


def write_patch(patch: Patch) -> None:
    """Change the files. Raises an OutputError, before any is touched, where one has changed since
    it was read or cannot be written."""
    texts = [(Path(change.file), *_texts(change)) for change in patch.changes]
    for path, *_ in texts:
        check_writable(path)
    done = list[tuple[Path, str | None]]()
    try:
        for path, before, after in texts:
            _write(path, after)
            done.append((path, before))
    except OutputError:
        for path, before in done:
            with suppress(OutputError, OSError):
                path.unlink() if before is None else _write(path, before)
        raise


def _write(path: Path, text: str) -> None:
    """The text in the place of the file's own; its permissions stay."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    write_atomic(path, text)
    if mode is not None:
        with suppress(OSError):
            path.chmod(mode)


def _texts(change: FileChange) -> tuple[str | None, str]:
    """The file as it is and behind the change, with the ends of lines and the mark that it had."""
    place = Place(change.path)
    if change.before is None:
        if Path(change.file).exists():
            raise OutputError("there is such a file by now; nothing is written", place=place)
        return None, change.after
    try:
        raw = Path(change.file).read_bytes().decode("utf-8")
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or "it is no UTF-8"
        raise OutputError(f"cannot be read: {said}; nothing is written", place=place) from error
    mark, text = (_BOM, raw[1:]) if raw.startswith(_BOM) else ("", raw)
    ends = "\r\n" if "\r\n" in text else "\n"
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    if plain != change.before:
        hint = "run `rnncheck verify --fix` again"
        raise OutputError(
            "the file has changed since it was read; nothing is written", place=place, hint=hint
        )
    if plain.replace("\n", ends) != text:
        raise OutputError("its lines end in several ways; nothing is written", place=place)
    return raw, mark + change.after.replace("\n", ends)
