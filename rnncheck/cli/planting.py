"""One planted fault after the other: build the pipeline with it, ask the checks, note which of them
saw it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rnncheck.results.planting import Attempt, Ending

if TYPE_CHECKING:
    from rnncheck.checks.engine.verification import Verification
    from rnncheck.checks.rule import Rule
    from rnncheck.faults.fault import Fault
    from rnncheck.results.events import Event
    from rnncheck.results.model import Run
    from rnncheck.spec.model import Spec


def look_at_health(spec: Spec) -> Run:
    """The verification of the pipeline as it is, with the spec's own choice of checks."""
    from rnncheck.cli.streams import streamed_events
    from rnncheck.results.collect import RunCollector

    def events() -> Iterator[Event]:
        from rnncheck.checks.engine.session import verify_events

        return verify_events(spec, _rules(spec), command="selftest", strict=spec.verify.strict)

    listener, begin = RunCollector(), time.perf_counter()
    with streamed_events(events) as stream:
        for event in stream:
            listener(event)
    return listener.finish(interrupted=False, seconds=time.perf_counter() - begin)


def planted(
    spec: Spec, faults: Sequence[Fault], healthy: Run, *, every: bool = False
) -> Iterator[Attempt]:
    """``attempts``, in a process that a fault may end: the next one then gets another."""
    from rnncheck.cli.streams import streamed
    from rnncheck.supervisor.supervise import Broken

    pending = list(faults)
    while pending:
        with streamed(lambda: attempts(spec, tuple(pending), healthy, every=every)) as stream:
            for item in stream:
                fault = pending.pop(0)
                if isinstance(item, Broken):
                    yield replace(_blank(fault), ending=Ending.ENDED, reason=item.reason)
                else:
                    yield item


def _blank(fault: Fault) -> Attempt:
    return Attempt(fault.name, str(fault.stage), fault.summary, fault.expects, Ending.CANNOT_APPLY)


def _rules(spec: Spec) -> tuple[Rule, ...]:
    from rnncheck.checks.engine.select import select_rules

    return select_rules(spec, spec.verify.select, spec.verify.ignore)


def attempts(
    spec: Spec, faults: Sequence[Fault], healthy: Run, *, every: bool = False
) -> Iterator[Attempt]:
    """An attempt for each fault. A check that fails without any fault catches none.

    With ``every`` all checks are asked, not only those that the fault expects until one of them
    fails.
    """
    from rnncheck.results.model import Outcome

    loud = {check.code for check in healthy.checks if check.outcome is Outcome.FAILED}
    rules = [rule for rule in _rules(spec) if rule.code not in loud]
    for fault in faults:
        begin = time.perf_counter()
        done = _attempt(spec, fault, rules, every=every)
        yield replace(done, seconds=time.perf_counter() - begin)


def _attempt(spec: Spec, fault: Fault, rules: Sequence[Rule], *, every: bool) -> Attempt:
    from rnncheck.checks.engine.verification import Verification
    from rnncheck.pipeline.plant.hooks import CannotPlant

    blank = _blank(fault)
    if not any(rule.code in fault.expects for rule in rules):
        return replace(blank, reason=f"{', '.join(fault.expects)} are left out")
    try:
        with Verification(spec, plant=fault.plant) as verification:
            exhaust(verification.build())
            by, told = _seen(verification, fault, rules, every=every)
    except CannotPlant as because:
        return replace(blank, reason=str(because))
    caught = set(by) & {*fault.expects, *_raised(verification)}
    ending = Ending.CAUGHT if caught else Ending.MISSED
    return replace(blank, ending=ending, by=tuple(by), reason="" if caught else told)


def exhaust(events: Iterator[Event]) -> None:
    """Let a stream run to its end without a listener."""
    for _ in events:
        pass


def _raised(verification: Verification) -> list[str]:
    """A fault that stops its pipeline is seen by everyone; one whose pipeline is only too slow is
    not."""
    from rnncheck.errors import StageTimeout

    found = verification.failures.items()
    return [f"the {stage} stage raises" for stage, e in found if not isinstance(e, StageTimeout)]


def _seen(
    verification: Verification, fault: Fault, rules: Sequence[Rule], *, every: bool
) -> tuple[list[str], str]:
    """What failed, and of a missed fault what its own checks said."""
    from rnncheck.results.model import Outcome

    found, said = list[str](), dict[str, str]()
    expected = [rule for rule in rules if rule.code in fault.expects]
    expected.sort(key=lambda rule: fault.expects.index(rule.code))
    others = [rule for rule in rules if rule not in expected]
    for rule in [*expected, *others] if verification.runs else ():
        if found and not every:
            break
        result = verification.asked(rule)
        found += [rule.code] if result.outcome is Outcome.FAILED else []
        if rule in expected:
            said[rule.code] = f"{rule.code} {result.outcome}: {result.reason}".rstrip(": ")
    caught = set(found) & set(fault.expects)
    return (found if caught else [*_raised(verification), *found]), "; ".join(said.values())
