"""File names as other tools want them: relative to a folder that they know, with forward
slashes."""

from __future__ import annotations

import os
from pathlib import Path

OVERRIDE = "--set "  # how the place of a value begins that came from the command line


def working_folder() -> Path:
    """The current folder; where it was removed, the one above all."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


def in_a_file(path: str) -> bool:
    """Whether a place is one that a tool can open."""
    return bool(path) and not path.startswith(OVERRIDE)


def relative(path: str, root: Path) -> str | None:
    """``path`` relative to ``root``, or None when it lies elsewhere."""
    # Path.resolve would follow links out of the root.
    try:
        absolute = Path(os.path.abspath(path))  # noqa: PTH100
        base = Path(os.path.abspath(root))  # noqa: PTH100
    except OSError:  # the working folder is gone
        return None
    return absolute.relative_to(base).as_posix() if absolute.is_relative_to(base) else None
