"""What a command says on standard error when something is wrong."""

from __future__ import annotations

import os
import sys

from rnncheck.errors import UserError
from rnncheck.printable import clean

_TRACEBACK = "RNNCHECK_TRACEBACK"


def print_user_error(error: UserError) -> None:
    """Bad input: one sentence for each mistake."""
    for one in getattr(error, "errors", (error,)):  # SpecErrors holds several
        print(f"error: {one}", file=sys.stderr)


def print_internal(said: str, trace: str) -> None:
    """A fault of rnncheck's own; the traceback for those who ask for it."""
    if os.environ.get(_TRACEBACK):
        print(trace, file=sys.stderr)
    print(
        f"internal error: {clean(said)}\n"
        "This is a fault of rnncheck, not of your pipeline: please report it with the spec.\n"
        f"Run again with {_TRACEBACK}=1 for the traceback.",
        file=sys.stderr,
    )
