"""The user's own lines: which files are theirs, where an exception left them, a few lines around a
place."""

from __future__ import annotations

import linecache
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rnncheck.errors import Place
from rnncheck.pipeline.guard.training_packages import trains_agents

AROUND = 2  # lines shown before and after the line itself
INSTALLED = ("site-packages", "dist-packages")  # folders of what is installed
LIBRARIES = ("torch", "torchrl", "tensordict", "gymnasium", "pydantic", "rnncheck")
# Lines and characters of an exception's own text that are repeated. Chosen: four lines of 100
# columns; tensordict and vmap print whole tensordicts, and their first lines say what is wrong.
MESSAGE_LINES = 4
MESSAGE_WIDTH = 400


@dataclass(frozen=True)
class Trouble:
    """An exception as the user should read it: its sentence, its place and their own frames."""

    message: str
    place: Place | None
    frames: str


def display_path(path: str) -> str:
    """``path`` relative to the working directory where it lies below it."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):  # OSError: the working directory is gone
        return path


def read_frame(path: str, line: int, around: int = AROUND) -> tuple[tuple[int, str], ...]:
    """``(number, text)`` of the lines around ``line``; empty when the file cannot be read."""
    if line < 1:
        return ()
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    first, last = max(1, line - around), min(len(lines), line + around)
    return tuple((number, lines[number - 1]) for number in range(first, last + 1))


_OWN_FOLDERS = list[str]()  # installed, and the user's all the same: what they run as a module
_FOLLOWED = [False]  # whether installed packages that train agents are the user's as well


def count_as_theirs(folders: Iterable[str]) -> None:
    """Files in these folders are the user's, wherever they are installed; in no others any more."""
    _OWN_FOLDERS[:] = folders
    is_user_file.cache_clear()


@contextmanager
def training_packages_followed() -> Iterator[None]:
    """Here files of installed packages that train agents are the user's as well."""
    before = list(_FOLLOWED)
    _FOLLOWED[:] = [True]
    is_user_file.cache_clear()
    try:
        yield
    finally:
        _FOLLOWED[:] = before
        is_user_file.cache_clear()


@cache
def _foreign_roots() -> tuple[str, ...]:
    """Folders whose code is not the user's: the standard library, the libraries, rnncheck
    itself."""
    roots = [sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib")]
    for name in LIBRARIES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            roots.append(str(Path(file).parent))
    return tuple(root.rstrip("/\\") for root in roots)


@cache
def is_user_file(path: str) -> bool:
    """Whether a traceback's file is neither a library's, nor Python's, nor rnncheck's."""
    if path.startswith("<") or not path:
        return False
    parts = Path(path).parts
    if any(Path(path).is_relative_to(folder) for folder in _OWN_FOLDERS):
        return True
    at = next((n for n, folder in enumerate(parts) if folder in INSTALLED), None)
    if at is not None:
        package = parts[at + 1 : at + 2]
        followed = _FOLLOWED[0] and package and package[0] not in LIBRARIES
        return bool(followed) and trains_agents(str(Path(*parts[: at + 2])))
    return not any(Path(path).is_relative_to(root) for root in _foreign_roots())


def calling_place(depth: int = 1) -> Place:
    """The innermost line of the user's on the stack, ``depth`` frames above; an empty place where
    there is none."""
    frame = sys._getframe(depth)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return Place(display_path(frame.f_code.co_filename), frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return Place("")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(error.__traceback__))


def _telling(error: BaseException) -> BaseException:
    """The link of the chain that was raised in the user's own code, else the error itself."""
    for link in _chain(error):
        frames = _frames(link)
        if frames and is_user_file(frames[-1].filename):
            return link
    for link in _chain(error):
        if any(is_user_file(frame.filename) for frame in _frames(link)):
            return link
    return error


def passed_through(error: BaseException, files: tuple[str, ...]) -> bool:
    """Whether the exception, or one that caused it, came through a file whose path holds one of
    ``files``."""
    paths = {Path(frame.filename).as_posix() for link in _chain(error) for frame in _frames(link)}
    return any(part in path for part in files for path in paths)


def sentence(error: BaseException) -> str:
    """``TypeName: text``, the text cut to a few lines."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    short = "\n".join(lines[:MESSAGE_LINES])
    if len(short) > MESSAGE_WIDTH:
        short = short[:MESSAGE_WIDTH].rstrip() + " ..."
    name = type(error).__name__
    return f"{name}: {short}" if short else name


def describe_trouble(error: BaseException) -> Trouble:
    """What the user should read of ``error``."""
    if isinstance(error, SyntaxError) and error.filename:
        place = Place(display_path(error.filename), error.lineno or 0, error.offset or 0)
        return Trouble(f"SyntaxError: {error.msg}", place, "")
    told = _telling(error)
    linecache.checkcache()
    mine = [frame for frame in _frames(told) if is_user_file(frame.filename)]
    if not mine:
        return Trouble(sentence(told), None, "")
    last = mine[-1]
    place = Place(display_path(last.filename), last.lineno or 0)
    return Trouble(sentence(told), place, "".join(traceback.format_list(mine)).rstrip())
