"""``verify --fix``: shows the patch that a run ends with, and writes it where that was asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rnncheck.errors import UserError

if TYPE_CHECKING:
    from rnncheck.results.events import Event, PatchOffered, PatchWithheld
    from rnncheck.results.patch import Patch


class PatchDesk:
    """Listens for the patch of a run. Raises UserError where it is to be written and not made."""

    def __init__(self, fix: bool, write: bool) -> None:
        if write and not fix:
            raise UserError("--write writes a patch", hint="use it with --fix")
        self._fix, self._write = fix, write
        self._ended: PatchOffered | PatchWithheld | None = None

    def hear(self, event: Event) -> None:
        """Keep what is said of a patch."""
        from rnncheck.results.events import PatchOffered, PatchWithheld

        if isinstance(event, PatchOffered | PatchWithheld):
            self._ended = event

    def conclude(self, *, apart: bool) -> None:
        """Show the patch, ``apart`` from a report on standard output; then write it.

        Raises an OutputError, and has written nothing, where the files are others by now.
        """
        from rnncheck.printable import clean
        from rnncheck.results.events import PatchOffered

        if not self._fix:
            return
        out = sys.stderr if apart else sys.stdout
        if not isinstance(self._ended, PatchOffered):
            because = self._ended.because if self._ended else "the run did not come to its end"
            print(clean(f"no patch: {because}"), file=out)
            return
        patch = self._ended.patch
        print("\n".join(_shown(patch)), file=out)
        if not self._write:
            print("write it: the same command with --write", file=out)
            return
        from rnncheck.patch.write import write_patch

        write_patch(patch)
        names = ", ".join(change.path for change in patch.changes)
        print(clean(f"written: {names}; the verdict above is that of before"), file=out)


def _shown(patch: Patch) -> list[str]:
    """The diff below what it does; its lines are the user's own."""
    from rnncheck.printable import clean, clean_code

    mends = f"patch for {' and '.join(patch.mends)}, {' and '.join(patch.words)}:"
    lines = [line[:1] + clean_code(line[1:]) for line in patch.diff.splitlines()]
    return [
        "",
        clean(mends),
        "the whole run was seen green with it: no check fails",
        "",
        *lines,
        "",
    ]
