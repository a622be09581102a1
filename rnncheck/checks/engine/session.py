"""A whole verification as a stream of events: build the stages, ask the rules, close everything."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from rnncheck import __version__
from rnncheck.checks.catalogue import Entry, prose
from rnncheck.checks.engine.accept import Acceptances
from rnncheck.checks.engine.haste import FAST, affordable, dear_last, dear_left_out
from rnncheck.checks.engine.own_checks import catalogue_of
from rnncheck.checks.engine.proving import Proof
from rnncheck.checks.engine.verification import Verification
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Rule
from rnncheck.results.environment import current_environment
from rnncheck.results.events import (
    CheckFinished,
    ChecksLeftOut,
    Event,
    GuaranteeJudged,
    Notice,
    RunStarted,
    StageFinished,
)
from rnncheck.results.left_out import judge_asked
from rnncheck.results.model import CheckResult, RuleInfo, SpecRef, StageResult, Tool
from rnncheck.spec.model import Spec

# Collects what the report draws, out of the evidence of a run and what its checks found.
Illustrator = Callable[[Sequence[CheckResult], Evidence], Iterator[Event]]


def verify_events(
    spec: Spec,
    rules: Sequence[Rule],
    *,
    command: str = "verify",
    thorough: bool = False,
    strict: bool = False,
    repair: bool = False,
    fast: bool = False,
    accepting: Acceptances | None = None,
    illustrate: Illustrator | None = None,
) -> Generator[Event, None, None]:
    """Everything that happens while ``spec`` is verified with ``rules``, of which the dear ones are
    asked last.

    With ``repair`` the causes of what failed are repaired in a second build, to see what follows
    from them. ``fast`` asks what is not dear, and repairs nothing. Who brings ``accepting`` tells
    itself what is left of the acceptances. ``illustrate`` collects what the report draws. Raises
    UserError where the spec or a factory is at fault. Closing the generator closes the pipeline.
    """
    rules, dear = affordable(rules) if fast else (rules, ())
    verification = Verification(
        spec, thorough=thorough, accepting=accepting, seconds=FAST if fast else None
    )
    begin = run_started(spec, rules, command, strict=strict)
    started = time.perf_counter()
    with verification:
        yield begin
        seen = Seen()
        yield from seen.hearing(verification.build())
        yield from seen.hearing(verification.ask(dear_last(rules)))
        if illustrate is not None:
            yield from verification.illustrated(partial(illustrate, seen.checks))
    yield from seen.hearing(dear_left_out(dear))
    seen.checks.sort(key=lambda one: begin.checks.index(one.code))
    for one in judge_asked(seen.checks, seen.stages, seen.left_out, strict=strict):
        yield GuaranteeJudged(verification.accepting.standing(one))
    if accepting is None:
        for left in verification.accepting.leftovers():
            yield Notice(f"{left.place}: the {left.name} {left.problem}")
    if repair and not fast:
        proof = Proof(spec, rules, seen.checks, strict=strict)
        yield from proof.events(time.perf_counter() - started)


@dataclass
class Seen:
    """The results in a stream of events."""

    checks: list[CheckResult] = field(default_factory=list)
    stages: list[StageResult] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def hearing(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events, noted on their way."""
        for event in events:
            if isinstance(event, CheckFinished):
                self.checks.append(event.result)
            elif isinstance(event, StageFinished):
                self.stages.append(event.result)
            elif isinstance(event, ChecksLeftOut):
                self.left_out += event.codes
            yield event


def run_started(spec: Spec, rules: Sequence[Rule], command: str, *, strict: bool) -> RunStarted:
    """The first event."""
    return RunStarted(
        tool=Tool("rnncheck", __version__),
        command=command,
        spec=SpecRef(spec.path, spec.name, spec.hash),
        environment=current_environment(spec.device),
        seed=spec.seed,
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        checks=tuple(rule.code for rule in rules),
        strict=strict,
        rules=tuple(_info(entry) for entry in _entries(spec, rules)),
    )


def _entries(spec: Spec, rules: Sequence[Rule]) -> list[Entry]:
    known = {entry.code: entry for entry in catalogue_of(spec).entries}
    return [known[rule.code] for rule in rules if rule.code in known]


def _info(entry: Entry) -> RuleInfo:
    why, fix = entry.sections["Why it matters"], entry.sections["Fix"]
    return RuleInfo(
        entry.code,
        entry.name,
        entry.severity,
        entry.stage,
        entry.family,
        entry.summary,
        prose(why),
        prose(fix),
        entry.holds,
    )
