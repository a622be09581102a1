"""The user's project as another environment has it installed: from another checkout, or as a
package of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from rnncheck.bench.sides import ASKING, Side, inherited
from rnncheck.errors import UserError
from rnncheck.gate.code import Other, copies, importable_from, same, source_folders
from rnncheck.gate.venv import project_of

_ASK_DISTRIBUTION = """
import json, sys
from importlib.metadata import PackageNotFoundError, distribution
try:
    found = distribution(sys.argv[1])
except PackageNotFoundError:
    print("null")
else:
    files = [file for file in found.files or () if file.suffix == ".py"]
    print(json.dumps({
        "direct": found.read_text("direct_url.json"),
        "files": {str(file): str(found.locate_file(file)) for file in files},
    }))
"""


@dataclass(frozen=True)
class Installed:
    """A distribution: the checkout that it is an editable installation of, or its modules' files by
    relative path."""

    checkout: Path | None
    files: Mapping[str, Path]


def side_of_python(python: str, spec: Path, overrides: tuple[str, ...]) -> Other:
    """The side of another interpreter: the same spec and code with its libraries.

    Where the spec's project is installed there otherwise than here, the code is that
    installation's. Raises UserError where it comes from a checkout that lacks the spec.
    """
    spec = spec.resolve()
    plain = Other(Side(python, python, str(spec), overrides, None, inherited()))
    project = project_of(spec, Path(spec.anchor))
    name = _name(project / "pyproject.toml")
    there = None if name is None else distribution_of(python, name)
    if name is None or there is None:
        return plain
    here = distribution_of(sys.executable, name)
    if there.checkout is not None:
        known = [project, here.checkout if here else None]
        return (
            plain if there.checkout in known else _checked_out(plain, name, there.checkout, project)
        )
    changed, mine = _changed(there.files, project), here.files if here else {}
    if all(one in mine and same(file, mine[one]) for one, file in changed.items()):
        return plain
    return _packaged(plain, name, changed, project)


def _name(pyproject: Path) -> str | None:
    """What the project is called where it is installed."""
    try:
        tables = tomllib.loads(pyproject.read_text(encoding="utf-8"))
        poetry = tables.get("tool", {}).get("poetry", {})
        name = tables.get("project", {}).get("name") or poetry.get("name")
    except (ValueError, OSError, AttributeError):  # the last where a table is none
        return None
    return name if isinstance(name, str) else None


def distribution_of(python: str, name: str) -> Installed | None:
    """The distribution ``name`` of an interpreter; None where it has none or cannot say."""
    try:
        done = subprocess.run(
            [python, "-P", "-c", _ASK_DISTRIBUTION, name],
            capture_output=True, text=True, timeout=ASKING, check=True,
            env={**os.environ, "PYTHONPATH": ""},
        )  # fmt: skip
        # the last line: what is imported at the start may print
        return _installed(json.loads(done.stdout.splitlines()[-1]))
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def _installed(told: object) -> Installed | None:
    """What the program answered. Raises ValueError where it is no answer of it."""
    match told:
        case None:
            return None
        case {"files": dict(files), "direct": None | str() as direct}:
            found = {str(one): Path(str(file)).resolve() for one, file in files.items()}
            return Installed(_checkout(direct), found)
    raise ValueError("no answer of the program")


def _checkout(direct: str | None) -> Path | None:
    """Of an editable installation (PEP 610)."""
    match json.loads(direct or "null"):
        case {"dir_info": {"editable": True}, "url": str(url)}:
            return Path(url2pathname(urlparse(url).path)).resolve()
    return None


def _checked_out(plain: Other, name: str, checkout: Path, project: Path) -> Other:
    side = plain.side
    inside = Path(side.spec).relative_to(project)
    if not (checkout / inside).exists():
        raise UserError(
            f"--against {side.python}: its {name} comes from {checkout}, where there is no"
            f" {inside}",
            hint=(
                "install there the checkout that has the spec, or compare revisions with"
                " --against-ref"
            ),
        )
    importable = importable_from(checkout, checkout, project, sys.path)
    return Other(
        Side(side.name, side.python, str(checkout / inside), side.overrides, checkout, importable),
        copies(project, checkout),
        told=f"{name} and the spec there are those of {checkout}",
    )


def _changed(files: Mapping[str, Path], project: Path) -> dict[str, Path]:
    """The installed files of which the project has another version."""
    return {
        one: file
        for one, file in files.items()
        if (mine := _mine(one, project)) is not None and not same(mine, file)
    }


def _mine(one: str, project: Path) -> Path | None:
    """The source of an installed file."""
    found = (
        folder / one for folder in (project / "src", project, *source_folders(project, sys.path))
    )
    return next((file.resolve() for file in found if file.is_file()), None)


def _packaged(plain: Other, name: str, changed: Mapping[str, Path], project: Path) -> Other:
    """Nothing that is inherited may hide the installed package; the spec's own folder still may,
    which is told."""
    side, tops = plain.side, {Path(one).parts[0] for one in changed}
    kept = [one for one in side.importable if not any((Path(one) / top).exists() for top in tops)]
    own = {mine: file for one, file in changed.items() if (mine := _mine(one, project)) is not None}
    return Other(
        Side(side.name, side.python, side.spec, side.overrides, None, tuple(kept)),
        own.get,
        must=False,
        told=f"{name} is installed there as another version than here",
    )
