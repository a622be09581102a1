"""What a self-test came to: each planted fault, and which checks saw it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Run


class Ending(StrEnum):
    """How an attempt ended."""

    CAUGHT = "caught"
    MISSED = "missed"
    CANNOT_APPLY = "cannot-apply"
    ENDED = "ended-process"


@dataclass(frozen=True)
class Attempt:
    """One fault and what became of it. ``by`` are the checks, or the stage, that saw it."""

    fault: str
    stage: str
    summary: str
    expects: tuple[str, ...]
    ending: Ending
    by: tuple[str, ...] = ()
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Selftest:
    """All attempts, behind the run of the pipeline as it is: None where that was interrupted."""

    healthy: Run | None
    attempts: tuple[Attempt, ...]
    seconds: float
    exit_code: ExitCode

    @property
    def sick(self) -> bool:
        """Whether the pipeline is not sound without any fault."""
        return self.healthy is not None and self.healthy.exit_code is not ExitCode.VERIFIED

    @property
    def unseen(self) -> bool:
        """Whether nothing is known of the pipeline without any fault."""
        return self.healthy is not None and self.healthy.exit_code is ExitCode.NOT_SHOWN

    @property
    def stopped(self) -> bool:
        """Whether it was by Ctrl-C or SIGTERM."""
        return self.exit_code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED)

    @property
    def counts(self) -> Counter[Ending]:
        """How many faults ended in which way."""
        return Counter(attempt.ending for attempt in self.attempts)
