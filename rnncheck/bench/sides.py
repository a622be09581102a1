"""Two sides of a comparison: an interpreter, a folder and what it can import, for this side and the
other.

Both run this very package, whichever they have installed: the harness is the same, the libraries
and the user's code are what differs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rnncheck.bench.messages import OpenPipeline
from rnncheck.bench.process import AnyWorker, WorkerProcess
from rnncheck.errors import UserError

PACKAGE = Path(__file__).resolve().parents[1]
HARNESS_PACKAGES = (
    "torch",
    "torchrl",
    "tensordict",
    "gymnasium",
    "pydantic",
    "ruamel.yaml",
    "scipy",
    "typer",
    "rich",
)
# Seconds that an interpreter may take to say what it has. It imports none of it and answers within
# one; chosen for file systems over a network, where starting it may take long.
ASKING = 60.0
OLDEST = (3, 11)  # `requires-python` of this package


@dataclass(frozen=True)
class Side:
    """One side. ``importable`` are folders that come before its installed packages."""

    name: str  # as reports call it
    python: str
    spec: str
    overrides: tuple[str, ...] = ()
    folder: Path | None = None  # that its processes run in; None: this process's own
    importable: tuple[str, ...] = ()

    def environment(self, import_folder: Path) -> dict[str, str]:
        """Of its processes: this package from ``import_folder``, then what the side brings."""
        path = [str(import_folder), *self.importable]
        return {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}

    def worker(self, import_folder: Path) -> AnyWorker:
        """A fresh process of it."""
        return WorkerProcess(self.python, self.environment(import_folder), self.folder)

    def command(self, *arguments: str) -> list[str]:
        """``rnncheck`` on this side."""
        return [self.python, "-m", "rnncheck", *arguments]


def make_import_folder(folder: Path) -> Path:
    """A folder in which this package lies alone: on a path it shadows nothing of another
    interpreter."""
    import_folder = folder / "import"
    import_folder.mkdir()
    (import_folder / "rnncheck").symlink_to(PACKAGE, target_is_directory=True)
    return import_folder


def inherited() -> tuple[str, ...]:
    """What the user's own PYTHONPATH makes importable, and the working folder."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return (*filter(None, named), str(Path.cwd()))


def find_python(text: str) -> str:
    """The interpreter that ``text`` names: itself, or that of a virtual environment's folder.

    Raises UserError where there is none.
    """
    path = Path(text).expanduser()
    for found in (path, path / "bin" / "python", path / "Scripts" / "python.exe"):
        if found.is_file() and os.access(found, os.X_OK):
            return str(found.absolute())
    raise UserError(
        f"--against {text}: this is no Python interpreter and no virtual environment",
        accepted="the path of a python, or of a folder with bin/python",
        hint="python -m venv other, and install the other versions there",
    )


_ASK_VERSION = """
import importlib.util, sys
names = sys.argv[1:]
print(*sys.version_info[:2])
print(*[name for name in names if importlib.util.find_spec(name.split(".")[0]) is None])
"""


def check_python(python: str) -> None:
    """Raise UserError where the interpreter cannot run this package, saying what it lacks."""
    try:
        done = subprocess.run(
            [python, "-c", _ASK_VERSION, *HARNESS_PACKAGES],
            capture_output=True, text=True, timeout=ASKING, check=True,
            env={**os.environ, "PYTHONPATH": ""},
        )  # fmt: skip
        version, lacking = done.stdout.splitlines()[:2]
        major, minor = map(int, version.split())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UserError(
            f"{python} does not run as a Python interpreter ({type(error).__name__})"
        ) from error
    if (major, minor) < OLDEST:
        raise UserError(f"{python} is Python {major}.{minor}; the other side needs 3.11 or newer")
    if lacking:
        raise UserError(
            f"{python} lacks {', '.join(lacking.split())}: it cannot be the other side",
            hint=f"{python} -m pip install rnncheck, with the versions to compare",
        )


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for the import folder and the other side's reports; gone with the comparison."""
    return tempfile.TemporaryDirectory(prefix="rnncheck-")


def open_command(side: Side, memory_limit: int | None, threads: int) -> OpenPipeline:
    """What a worker of ``side`` is opened with."""
    return OpenPipeline(side.spec, side.overrides, None, memory_limit, threads)


def here(spec: str, overrides: Sequence[str]) -> Side:
    """This side: the interpreter that runs now."""
    return Side("here", sys.executable, spec, tuple(overrides), None, inherited())
