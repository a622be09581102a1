"""Where the spec is, when the command line does not say."""

from __future__ import annotations

import os
import pathlib

from rnncheck.errors import Place, SpecError

NAMES = ("rnncheck.yaml", "rnncheck.yml")


def discover(start: pathlib.Path) -> pathlib.Path:
    """``rnncheck.yaml`` or ``.yml`` in ``start`` or above it, up to the repository's root.

    Returned relative to the working folder where it lies below it.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        found = [folder / name for name in NAMES if (folder / name).is_file()]
        if len(found) > 1:
            message = f"both {NAMES[0]} and {NAMES[1]} are here"
            raise SpecError(message, place=Place(str(folder)), hint="keep one, or name it")
        if found:
            return pathlib.Path(os.path.relpath(found[0]))
        if (folder / ".git").exists():
            break
    raise SpecError(
        f"no {NAMES[0]} here or above, up to {folder}",
        place=Place(str(start)),
        hint="write one with `rnncheck init`, or name a spec file",
    )
