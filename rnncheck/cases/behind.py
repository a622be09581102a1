"""Behind a run: a case of each of its causes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rnncheck.checks.rule import Rule
from rnncheck.errors import first_line
from rnncheck.results.causes import judge_causes
from rnncheck.results.events import (
    CausesFound,
    CheckFinished,
    Event,
    Notice,
    Reducing,
    StageFinished,
)
from rnncheck.results.model import Cause, CheckResult, Outcome, Stage

MOST_CAUSES = 3  # of a run that have a case: chosen, what is mended before the next run
# Stores the case of a failed check and gives its id; the stages are those that raised in the run.
Keep = Callable[[Rule, CheckResult, frozenset[Stage]], str]


@dataclass(frozen=True)
class Behind:
    """What is kept of a run that asked ``rules``, by ``keep``; ``doing`` says so while it is."""

    rules: Sequence[Rule]
    keep: Keep
    strict: bool = False
    doing: str = "making the smallest case of"

    def events(self, run: Iterator[Event]) -> Iterator[Event]:
        """The events of the run, then what is stored, and its causes with their cases."""
        checks: dict[str, CheckResult] = {}
        causes: tuple[Cause, ...] = ()
        raised = set[Stage]()
        for event in run:
            if isinstance(event, CheckFinished):
                checks[event.result.code] = event.result
            elif isinstance(event, StageFinished) and event.result.outcome is Outcome.ERROR:
                raised.add(event.result.stage)
            elif isinstance(event, CausesFound):
                causes = event.causes
            yield event
        causes = causes or judge_causes(checks.values(), strict=self.strict)
        yield from self._cases(causes, checks, frozenset(raised))

    def _cases(
        self,
        causes: tuple[Cause, ...],
        checks: dict[str, CheckResult],
        raised: frozenset[Stage],
    ) -> Iterator[Event]:
        known = {rule.code: rule for rule in self.rules}
        kept: list[Cause] = []
        for cause in causes[:MOST_CAUSES]:
            case = ""
            yield Reducing(f"{self.doing} {cause.code}")
            try:
                case = self.keep(known[cause.code], checks[cause.code], raised)
            except Exception as error:  # a case may cost no verdict, whatever is in its way
                yield Notice(f"no case of {cause.code} is stored: {first_line(error)}")
            kept.append(replace(cause, case=case))
        if any(one.case for one in kept):
            yield CausesFound((*kept, *causes[MOST_CAUSES:]))


def now() -> str:
    """When a case is made, as it says so itself."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
