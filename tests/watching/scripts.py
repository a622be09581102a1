"""The scripts of fixtures/scripts, as they are and with a fault planted into their text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "scripts"
OTHERS = SCRIPTS.parent / "others"


def planted(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A copy of the script, of a package with all of its files, with every ``(old, new)`` done."""
    text = (SCRIPTS / name).read_text()
    if "/" in name:
        shutil.copytree((SCRIPTS / name).parent, (folder / name).parent)
    for old, new in changes:
        assert old in text, f"{name} has no {old!r} any more"
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text)
    return path


def written(folder: Path, text: str, *changes: tuple[str, str]) -> Path:
    """A script of the text, with every ``(old, new)`` done."""
    for old, new in changes:
        assert old in text, f"the script has no {old!r} any more"
        text = text.replace(old, new)
    path = folder / "train.py"
    path.write_text(text)
    return path


def target(path: Path) -> list[str]:
    """How a script, or the package that a ``__main__.py`` is of, is named to ``rnncheck run``."""
    return ["-m", path.parent.name] if path.stem == "__main__" else [str(path)]


def run(rnncheck: Any, *args: str | Path, cwd: Path = SCRIPTS) -> tuple[int, dict[str, Any], Any]:
    """Exit code, stored run and the process of ``rnncheck run --report json ...``."""
    done = rnncheck("run", "--report", "json", *map(str, args), cwd=cwd)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout), done


def failed(run: dict[str, Any]) -> list[str]:
    """The codes that failed."""
    return [check["code"] for check in run["checks"] if check["outcome"] == "failed"]


def judged(
    rnncheck: Any, folder: Path, codes: str, text: str, *changes: tuple[str, str]
) -> tuple[int, list[str]]:
    """Exit code, and the codes that failed, of these checks on a script of the text."""
    path = written(folder, text, *changes)
    code, told, _ = run(rnncheck, "--select", codes, path)
    return code, failed(told)


def judged_other(
    rnncheck: Any, folder: Path, name: str, codes: str, *changes: tuple[str, str]
) -> tuple[int, list[str]]:
    """The same of a script of fixtures/others."""
    return judged(rnncheck, folder, codes, (OTHERS / f"{name}.py").read_text(), *changes)
