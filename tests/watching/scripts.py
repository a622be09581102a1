"""The scripts of fixtures/scripts, as they are and with a fault planted into their text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "scripts"


def planted(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A copy of the script with every ``(old, new)`` done."""
    text = (SCRIPTS / name).read_text()
    for old, new in changes:
        assert old in text, f"{name} has no {old!r} any more"
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text)
    return path


def run(rnncheck: Any, *args: str | Path) -> tuple[int, dict[str, Any], Any]:
    """Exit code, stored run and the process of ``rnncheck run --report json ...``."""
    done = rnncheck("run", "--report", "json", *map(str, args))
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout), done


def failed(run: dict[str, Any]) -> list[str]:
    """The codes that failed."""
    return [check["code"] for check in run["checks"] if check["outcome"] == "failed"]
