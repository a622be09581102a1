"""Writing files so that a reader sees the old one or the new one, never half of one; hashing the
user's code."""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

from rnncheck.errors import OutputError, Place


def check_writable(path: Path) -> None:
    """Raise an OutputError unless ``write_atomic`` can write ``path``; leaves nothing behind."""
    target = _target(path)
    try:
        problem, hint = _obstacle(target)
        if not problem and not _is_special(target):
            _try_folder(target)
    except OSError as error:
        raise _refused(path, error) from error
    if problem:
        raise OutputError(problem, place=Place(str(path)), hint=hint)


def _obstacle(target: Path) -> tuple[str, str]:
    """What is in the way, and what to do about it."""
    if target.is_dir():
        return "this is a folder, not a file", "name a file in it"
    if not target.parent.is_dir():
        return f"the folder {str(target.parent)!r} does not exist", "create it first"
    if target.exists() and not os.access(target, os.W_OK):
        return "the file is read-only", "name another file, or make it writable"
    return "", ""


def replace_bytes(path: Path, data: bytes) -> None:
    """As ``write_atomic``, for what is no text."""
    try:
        _replace(_target(path), data)
    except OSError as error:
        raise _refused(path, error) from error


def write_atomic(path: Path, text: str, *, follow: bool = True) -> None:
    """Write ``text`` beside ``path`` and move it there; devices and pipes are written directly.

    Without ``follow`` a link, device or pipe at ``path`` is replaced, and nothing else written.
    """
    target = _target(path) if follow else path.absolute()
    data = text.encode("utf-8", errors="backslashreplace")
    try:
        if follow and _is_special(target):
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        raise _refused(path, error) from error


def _try_folder(target: Path) -> None:
    probe = _beside(target)
    probe.touch(exist_ok=False)
    probe.unlink()


def _replace(target: Path, data: bytes) -> None:
    temporary = _beside(target)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _target(path: Path) -> Path:
    """Where the bytes go: a link keeps pointing at its file."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL in the name
        raise OutputError("this is no usable path", place=Place(repr(str(path)))) from error


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _beside(target: Path) -> Path:
    return target.with_name(f".rnncheck-{secrets.token_hex(6)}.tmp")


def _refused(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or type(error).__name__
    return OutputError(f"cannot be written: {reason}", place=Place(str(path)))


def code_hash(folder: Path) -> str:
    """A hash over the Python files in the spec's folder: what its factories are imported from.

    What cannot be read, such as the dangling link that an editor locks a file with, has its name
    alone in it.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(os.fsencode(path.name))
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
