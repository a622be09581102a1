"""What a saved run lacks of the script that it was: it is not shown, whatever the rest shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from rnncheck.results.events import CheckFinished, Event, GuaranteeJudged, StageFinished
from rnncheck.results.guarantees import judge_guarantees
from rnncheck.results.model import CheckResult, Outcome, Stage, StageResult
from rnncheck.watching.seen import Sightings
from rnncheck.watching.words import LACKS

_WORDS = {Stage.LOSS: ("loss", "replay", "training batch"), Stage.ADVANTAGE: ("advantage",)}
Lost = Mapping[Stage, str]  # why, by stage


def without(lost: Lost, events: Iterable[Event], *, strict: bool) -> Iterator[Event]:
    """The events where stages are ``lost``: what asks for them could not look."""
    checks, stages, judged = list[CheckResult](), list[StageResult](), False
    for event in events:
        match event:
            case _ if not lost:
                yield event
            case StageFinished():
                stages.append(_stage(event.result, lost))
                yield StageFinished(stages[-1])
            case CheckFinished():
                checks.append(_check(event.result, lost))
                yield CheckFinished(checks[-1])
            case GuaranteeJudged():
                if not judged:
                    yield from map(GuaranteeJudged, judge_guarantees(checks, stages, strict=strict))
                judged = True
            case _:
                yield event


def ends_without(lost: Lost, seen: Sightings) -> Iterator[StageResult]:
    """The stages of a run whose policy or env is lost: nobody can look into the others either."""
    first = next(iter(lost.values()))
    there = {Stage.LOSS: bool(seen.losses), Stage.ADVANTAGE: bool(seen.estimators)}
    for stage, is_there in there.items():
        if is_there or stage in lost:
            yield StageResult(stage, Outcome.NOT_LOOKED, lost.get(stage, first))
    for stage in set(lost) - set(there):
        yield StageResult(stage, Outcome.NOT_LOOKED, lost[stage])


def _stage(result: StageResult, lost: Lost) -> StageResult:
    why = lost.get(result.stage, "")
    return replace(result, outcome=Outcome.NOT_LOOKED, detail=why) if why else result


def _check(result: CheckResult, lost: Lost) -> CheckResult:
    if result.outcome is not Outcome.NOT_APPLICABLE or not LACKS.search(result.reason):
        return result
    for stage, why in lost.items():
        if any(word in result.reason for word in _WORDS.get(stage, ())):
            return replace(result, outcome=Outcome.NOT_LOOKED, reason=why)
    return result
