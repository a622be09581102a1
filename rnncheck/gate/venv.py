"""The virtual environment of another revision, where what it asks to install is not what is
installed here."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rnncheck.bench.sides import HARNESS_PACKAGES
from rnncheck.errors import UserError
from rnncheck.gate.commands import run_command

INSTALLS = (
    "pyproject.toml", "setup.py", "setup.cfg", "requirements*.txt", "constraints*.txt",
    "uv.lock", "poetry.lock", "pdm.lock",
)  # fmt: skip
TOLD_ONLY = {
    "version",
    "description",
    "readme",
    "license",
    "authors",
    "keywords",
    "classifiers",
    "urls",
}
INSTALLERS = {
    "poetry",
    "pdm",
    "uv",
    "hatch",
    "setuptools",
    "flit",
}  # tables of [tool] that say what is installed
BUILT = ("pyproject.toml", "setup.py")
HARNESS = (
    *HARNESS_PACKAGES,
    "hoptorch",
)  # by name alone: which versions is for the revision to say


def project_of(spec: Path, tree: Path) -> Path:
    """The folder from whose files ``spec``'s project is installed: the nearest above it, at most
    ``tree``."""
    for folder in spec.parents:
        if folder == tree or any(any(folder.glob(name)) for name in INSTALLS):
            return folder
    return tree


def differ(one: Path, other: Path) -> bool:
    """Whether two versions of a file ask to install different things."""
    if one.name != "pyproject.toml" or not (one.exists() and other.exists()):
        return True
    asked = (_asked(one), _asked(other))
    return None in asked or asked[0] != asked[1]


def _asked(pyproject: Path) -> dict[str, Any] | None:
    """What a pyproject.toml says of what is installed; None where it cannot be read."""
    try:
        tables = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return None
    told = {name: table for name, table in tables.items() if name != "tool"}
    told["project"] = {
        name: value for name, value in tables.get("project", {}).items() if name not in TOLD_ONLY
    }
    told["tool"] = {
        name: value for name, value in tables.get("tool", {}).items() if name in INSTALLERS
    }
    return told


def make_venv(folder: Path, project: Path, problem: str) -> str:
    """The interpreter of ``folder``, made and filled where it is not yet.

    Raises UserError with ``problem`` where something cannot be installed.
    """
    done, python = folder / ".installed", folder / "bin" / "python"
    if done.exists():
        return str(python)
    # --without-pip: systems that ship python3 and pip often leave ensurepip out
    cannot = "a virtual environment cannot be made"
    run_command(
        [sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], project, cannot
    )
    install = installer(python, project)
    for arguments in installations(project):
        run_command([*install, *arguments], project, problem)
    done.touch()
    return str(python)


def installer(python: Path, folder: Path) -> list[str]:
    """A command that installs into the environment of ``python``. Raises UserError where there is
    none.

    An environment is often made without pip of its own; then the interpreter that it was made from
    may have one.
    """
    own = dict.fromkeys((sys.executable, getattr(sys, "_base_executable", sys.executable)))
    for pip in [*([one, "-m", "pip"] for one in own), ["pip"]]:
        try:
            run_command([*pip, "--version"], folder, "no pip")
        except UserError:
            continue
        return [*pip, "--python", str(python), "install"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", str(python)]
    raise UserError(
        f"there is neither pip (asked: {', '.join(own)}) nor uv: nothing can be installed",
        hint="python -m ensurepip, or make the environment yourself and name it with --against",
    )


def installations(project: Path) -> list[list[str]]:
    """Arguments of ``pip install``, in order: torch, what the project asks for, what the harness
    lacks.

    torch comes first, as it is here unless a file pins it, so that no range brings another build of
    it.
    """
    constraints = sorted(project.glob("constraints*.txt"))
    requirements = sorted(project.glob("requirements*.txt"))
    pins = [part for file in constraints for part in ("--constraint", str(file))]
    own = [["--requirement", str(file)] for file in requirements]
    if any((project / name).exists() for name in BUILT):
        own.append(["--editable", str(project)])
    torch = _pinned_torch((*constraints, *requirements)) or _torch_here()
    return [[*pins, *one] for one in ([torch], *own, list(HARNESS))]


def _torch_here() -> str:
    return f"torch=={version('torch').partition('+')[0]}"


def _pinned_torch(files: Iterable[Path]) -> str | None:
    """``torch==X`` as the files say it."""
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"^torch\s*==\s*([^\s;#,]+)", text, re.MULTILINE):
            return f"torch=={found[1]}"
    return None
