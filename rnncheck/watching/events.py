"""A watched script as a stream of events: what it did is judged as a spec's pipeline is."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from rnncheck.checks.engine.run import unasked_rules
from rnncheck.checks.engine.session import Illustrator, run_started, verify_events
from rnncheck.checks.engine.session import Seen as Heard
from rnncheck.checks.rule import Rule
from rnncheck.pipeline.guard.user_frames import Trouble, read_frame
from rnncheck.results.events import Event, GuaranteeJudged, Notice, RunStarted, StageFinished
from rnncheck.results.guarantees import judge_guarantees
from rnncheck.results.model import Outcome, Source, Stage, StageResult
from rnncheck.spec.model import Spec
from rnncheck.watching import weights
from rnncheck.watching.assemble import NothingSeen, spec_from
from rnncheck.watching.observer import Watching
from rnncheck.watching.script import Script, ScriptEnd, main_kept, run_script
from rnncheck.watching.seen import Sightings
from rnncheck.watching.switches import starts_inside
from rnncheck.watching.words import of_the_script, why_nothing


@dataclass(frozen=True)
class RunLimits:
    """When enough of a script was seen, and when it is ended."""

    updates: int = 3
    seconds: float = 600.0
    keep_going: bool = False


def watched_events(
    script: Script,
    asked: Spec,
    rules: Sequence[Rule],
    limits: RunLimits,
    *,
    thorough: bool = False,
    strict: bool = False,
    illustrate: Illustrator | None = None,
) -> Iterator[Event]:
    """Run the script under the watch, then ask ``rules`` of what was seen; ``asked`` is the spec of
    nothing, with its settings."""
    yield run_started(asked, rules, "run", strict=strict)
    begin = time.perf_counter()
    watching = Watching(limits.updates, ends=not limits.keep_going)
    with main_kept():
        ended = run_script(script, watching, limits.seconds)
        weights.put(watching.seen.weights)
        train = _trained(watching.seen, ended, time.perf_counter() - begin)
        yield StageFinished(train)
        if ended.enough:
            yield Notice(f"the script was {train.detail} (`--updates`)")
        elif ended.timed_out:
            yield Notice(f"the script was ended after {limits.seconds:g} s (`--seconds`)")
        yield from judged_events(
            watching.seen,
            asked,
            rules,
            train,
            thorough=thorough,
            strict=strict,
            illustrate=illustrate,
        )


def judged_events(
    seen: Sightings,
    asked: Spec,
    rules: Sequence[Rule],
    train: StageResult,
    *,
    thorough: bool = False,
    strict: bool = False,
    illustrate: Illustrator | None = None,
) -> Generator[Event, None, None]:
    """What the rules say of what was seen, without the first event."""
    raised = train.outcome is Outcome.ERROR
    try:
        spec = spec_from(seen, asked)
    except NothingSeen as nothing:
        yield Notice(nothing.message)
        yield from _unseen(rules, train, strict=strict)
        return
    yield from map(Notice, notices(seen, raised=raised))
    hidden = seen.loss() is None and seen.backwards > 0 and not raised
    events = verify_events(
        spec, rules, command="run", thorough=thorough, strict=strict, illustrate=illustrate
    )
    yield from (
        of_the_script(event, raised=raised, hidden=hidden)
        for event in events
        if not isinstance(event, RunStarted)
    )


def _unseen(rules: Sequence[Rule], train: StageResult, *, strict: bool) -> Iterator[Event]:
    """No check could look, and all for one reason."""
    heard, why = Heard(), why_nothing(train)
    yield from heard.hearing(unasked_rules(rules, why))
    for one in judge_guarantees(heard.checks, [train], strict=strict):
        yield GuaranteeJudged(replace(one, because=why if one.because else ""))


def notices(seen: Sightings, *, raised: bool = False) -> Iterator[str]:
    """What was seen and is not judged, and what to do about it."""
    others = [one for one in seen.losses if one is not seen.loss()]
    for one in others:
        yield f"{one.place}: {type(one.module).__name__} was called as well, and is not judged"
    loss = seen.loss()
    if loss is not None and loss.switches and not starts_inside(loss):
        names = ", ".join(sorted({name for held in loss.switches.values() for name in held}))
        yield (
            f"{loss.place}: the policy trains with another {names} than it acts with, on rows in"
            " which no trajectory begins: that pass is judged by the loss alone"
        )
    acting = seen.actor()
    if acting is not None and seen.loss() is None and not raised:
        yield "no call of a loss module was seen: loss and gradients are not judged"
    if acting is not None and acting.collector is not None and not acting.further:
        yield (
            f"{acting.place}: the collector was not asked for further batches: what it carries from"
            " batch to batch is judged by those before the first update"
        )


def _trained(seen: Sightings, ended: ScriptEnd, seconds: float) -> StageResult:
    """How the script ended."""
    told = f"{seen.updates} optimiser steps seen"
    if ended.timed_out:
        told += ", ended by the time limit"
    elif ended.enough:
        told = f"ended after {seen.updates} optimiser steps"
    if isinstance(ended.raised, Trouble):
        trouble = ended.raised
        said = "\n".join(filter(None, (f"{trouble.message}", trouble.frames)))
        return StageResult(Stage.TRAIN, Outcome.ERROR, said, seconds, _line(trouble))
    if ended.code not in (None, 0):
        said = f"the script ended with exit code {ended.code}, {told}"
        return StageResult(Stage.TRAIN, Outcome.ERROR, said, seconds)
    return StageResult(Stage.TRAIN, Outcome.PASSED, told, seconds)


def _line(trouble: Trouble) -> Source | None:
    at = trouble.place
    if at is None:
        return None
    return Source(at.path, at.line, at.column, "python", "train", read_frame(at.path, at.line))
