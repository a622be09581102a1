"""Where the run of a command goes: report files, the store, the streams.

All of it is decided, checked and made absolute before any work is done, since the user's code may
change the working folder. In the end each output is tried, whatever became of the others: the files
first, then the store, and the streams last, for they may block. What cannot be written is told in
one sentence on standard error and in the notices of what is written after it; the exit code stays
the verdict's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rnncheck.errors import OutputError
    from rnncheck.report.formats import Target
    from rnncheck.results.model import Run
    from rnncheck.spec.model import Spec


@dataclass(frozen=True)
class Outputs:
    """What a run is written to. ``folder`` is the working folder of the command."""

    store: Path
    targets: Sequence[Target]
    folder: Path
    quiet: bool
    verbose: bool

    @classmethod
    def prepared(
        cls, spec: Spec, reports: Sequence[str] | None, *, quiet: bool, verbose: bool
    ) -> Outputs:
        """Everything that the user asked for can be written. Raises OutputError."""
        from rnncheck.report.formats import parse_targets
        from rnncheck.report.places import working_folder
        from rnncheck.results.store import default_store, prepare_store

        targets = parse_targets(reports or [])
        store = default_store(Path(spec.path))
        prepare_store(store)
        return cls(store, targets, working_folder(), quiet, verbose)

    @property
    def plain(self) -> bool:
        """Whether standard output is read by people: no other format goes there."""
        return all(one.path is not None or one.format == "console" for one in self.targets)

    @property
    def draws(self) -> bool:
        """Whether a report has pictures."""
        return any(target.format == "html" for target in self.targets)

    def conclude(self, run: Run) -> None:
        """Write all of it."""
        from rnncheck.report.formats import attempted, print_reports, write_file
        from rnncheck.results.store import store_run

        with suppress(OSError):  # names in reports are relative to it
            os.chdir(self.folder)
        for target in self.targets:
            step = partial(write_file, run, target)
            run = self._noting(run, attempted([step]), f"the {target.format} report")
        run = self._noting(run, attempted([partial(store_run, run, self.store)]), "the result")
        printing: Callable[[], None] = partial(
            print_reports, run, self.targets, sys.stdout, self.quiet, self.verbose, live=True
        )
        self._noting(run, attempted([printing]), "the report")

    def _noting(self, run: Run, failed: Sequence[OutputError], what: str) -> Run:
        """The run with what could not be written, which is told at once."""
        told = [f"{what} is not written: {one}" for one in failed]
        for sentence in told:
            print(f"error: {sentence}", file=sys.stderr)
        return replace(run, notices=(*run.notices, *told))
