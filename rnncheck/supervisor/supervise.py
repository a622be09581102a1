"""The events of a run, from a process of their own; where that process ends in the middle of
something, the events that say so and close the run."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from rnncheck.results.endings import FORKED
from rnncheck.results.events import (
    CheckFinished,
    ChecksLeftOut,
    CheckStarted,
    Event,
    GuaranteeJudged,
    RunBroken,
    RunStarted,
    StageFinished,
    StageStarted,
)
from rnncheck.results.left_out import judge_asked
from rnncheck.results.model import CheckResult, Outcome, RuleInfo, StageResult
from rnncheck.supervisor.channel import BadInput, Copied, Crashed, Ended, Message, Told
from rnncheck.supervisor.last_words import ending_of
from rnncheck.supervisor.process import SupervisedProcess
from rnncheck.supervisor.scripts import ScriptEnded, SupervisedScript

COPIED = f"{FORKED}, and the copy went on with the run"


@dataclass(frozen=True)
class Broken:
    """The stream ended before its end, and why."""

    reason: str
    trace: str = ""  # of an exception that nobody expected
    after: Any = None  # the last item before it


def supervised(
    make: Callable[[], Iterator[Any]],
    waiting: Callable[[], None] = lambda: None,
    *,
    prints: bool = False,
    script_ended: ScriptEnded | None = None,
) -> Generator[Any, None, None]:
    """The items of ``make()``, which runs in a process of its own; Broken as the last one where it
    did not end. ``waiting`` is called at least once a second until then; with ``prints`` its
    standard output is this one's. Until an item is ``script_ended``, Ctrl-C goes to the process
    first, which may catch it.

    Closing the generator ends the process and all that it started. Raises the UserError that
    ``make()`` raises.
    """
    ended = False
    script = SupervisedScript(script_ended, waiting)
    supervised_process = SupervisedProcess(make, script.wait, prints=prints)
    with closing(supervised_process) as process, script.inside(process):
        try:
            for message in process.messages():  # to the end: a copy of it may speak last
                if isinstance(message, Told):
                    script.note(message.item)
                    yield message.item
                elif (last := _last(message)) is not None:
                    yield last
                    return
                ended = ended or isinstance(message, Ended)
        except pickle.UnpicklingError as error:
            yield Broken(f"what its process told cannot be read ({error})")
            return
        if not ended:
            script.broke_off(process.death().code)
            yield Broken(ending_of(process.death()))


def _last(message: Message) -> Broken | None:
    """What breaks the stream off, if it does."""
    match message:
        case BadInput():
            raise message.error
        case Crashed():
            return Broken(f"raised {message.said}", message.trace)
        case Copied():
            return Broken(COPIED, after=message.item)
    return None


def supervised_events(
    make: Callable[[], Iterator[Event]],
    waiting: Callable[[], None] = lambda: None,
    *,
    prints: bool = False,
    script_ended: ScriptEnded | None = None,
) -> Generator[Event, None, None]:
    """The events of ``make()``, and where they break off those that a reader of them waits for."""
    ledger = Ledger()
    made = supervised(make, waiting, prints=prints, script_ended=script_ended)
    with closing(made) as items:
        for item in items:
            if isinstance(item, Broken):
                yield from ledger.broken(item)
            else:
                ledger.note(item)
                yield item


@dataclass
class Ledger:
    """What a run has begun and ended."""

    start: RunStarted | None = None
    open: StageStarted | CheckStarted | None = None
    stages: list[StageResult] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    judged: bool = False

    def note(self, event: Event) -> None:
        """An event on its way."""
        match event:
            case RunStarted():
                self.start = event
            case StageStarted() | CheckStarted():
                self.open = event
            case StageFinished():
                self.stages.append(event.result)
                self.open = None
            case CheckFinished():
                self.checks.append(event.result)
                self.open = None
            case ChecksLeftOut():
                self.left_out += event.codes
                self.open = None
            case GuaranteeJudged():
                self.judged = True

    def broken(self, why: Broken) -> Iterator[Event]:
        """An error for what was open, no answer for what was still to come, and the verdict's
        parts."""
        self._reopen(why.after)
        where, rules = self._where(), self._rules()
        if isinstance(self.open, StageStarted):
            result = StageResult(self.open.stage, Outcome.ERROR, why.reason)
            self.stages.append(result)
            yield StageFinished(result)
        elif isinstance(self.open, CheckStarted) and self.open.code in rules:
            yield self._concluded(rules.pop(self.open.code), Outcome.ERROR, why.reason)
        if not self.judged:
            left = f"not run: {where} ended the run ({why.reason})"
            for rule in rules.values():
                yield CheckStarted(rule.code, rule.name, rule.stage)
                yield self._concluded(rule, Outcome.NOT_LOOKED, left)
            yield from self._guarantees()
        yield RunBroken(f"{where}: {why.reason}", why.trace)

    def _reopen(self, event: object) -> None:
        """What had begun with this event has not ended well."""
        if isinstance(event, StageStarted):
            self.stages = [one for one in self.stages if one.stage is not event.stage]
            self.open = event
        elif isinstance(event, CheckStarted):
            self.checks = [one for one in self.checks if one.code != event.code]
            self.open = event

    def _where(self) -> str:
        match self.open:
            case StageStarted():
                return f"the {self.open.stage} stage"
            case CheckStarted():
                return f"{self.open.code} {self.open.name}"
        return "after the last check" if self.judged else "between two steps of the run"

    def _rules(self) -> dict[str, RuleInfo]:
        """The checks without a result."""
        done = {*(check.code for check in self.checks), *self.left_out}
        asked = self.start.rules if self.start else ()
        return {rule.code: rule for rule in asked if rule.code not in done}

    def _concluded(self, rule: RuleInfo, outcome: Outcome, reason: str) -> CheckFinished:
        result = CheckResult(rule.code, rule.name, rule.severity, rule.stage, outcome, reason)
        self.checks.append(result)
        return CheckFinished(result)

    def _guarantees(self) -> Iterator[Event]:
        if self.start is not None and self.start.rules:
            judged = judge_asked(self.checks, self.stages, self.left_out, strict=self.start.strict)
            yield from map(GuaranteeJudged, judged)
