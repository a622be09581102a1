"""What is dear: a run asks it last, ``--fast`` never. What ``--fast`` asks besides has its time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from rnncheck.checks.rule import Rule
from rnncheck.pipeline.guard.timeout import SOONEST
from rnncheck.results.events import ChecksLeftOut

FAST = 10.0  # seconds for all checks of a fast run; building and collecting come on top


class TimeBox:
    """The seconds that checks have together, from the first one on; None for no end."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._end: float | None = None

    def start(self) -> None:
        """The first check begins."""
        if self._seconds is not None and self._end is None:
            self._end = time.perf_counter() + self._seconds

    def within(self, limit: float) -> float:
        """``limit``, or what is left."""
        left = limit if self._end is None else self._end - time.perf_counter()
        return max(min(limit, left), SOONEST)

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self._end is not None and time.perf_counter() >= self._end

    def too_late(self, codes: Sequence[str]) -> Iterator[ChecksLeftOut]:
        """Says that these were not asked any more; nothing where there are none."""
        if codes:
            spent = (
                f"the {self._seconds:g} s of --fast were over before {', '.join(codes)} had ended"
            )
            yield ChecksLeftOut(tuple(codes), f"{spent}: not asked")


def affordable(rules: Iterable[Rule]) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """The rules that a fast run asks, and the codes of those that it leaves out."""
    asked = tuple(rules)
    return tuple(one for one in asked if not one.dear), tuple(o.code for o in asked if o.dear)


def dear_last(rules: Iterable[Rule]) -> list[Rule]:
    """The rules in the order in which a run asks them: what is soon told is told first."""
    return sorted(rules, key=lambda one: one.dear)


def dear_left_out(codes: Sequence[str]) -> Iterator[ChecksLeftOut]:
    """Says that these are not asked; nothing where there are none."""
    if codes:
        why = "which run the pipeline many times over; without --fast they are asked"
        yield ChecksLeftOut(tuple(codes), f"--fast does not ask {', '.join(codes)}, {why}")
