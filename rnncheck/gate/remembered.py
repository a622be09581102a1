"""The budgets on what the policy remembers, and what a study says of them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from rnncheck.errors import Place
from rnncheck.gate.budgets import BudgetedNumber, limit_ruling
from rnncheck.recall.run import MemoryStudy
from rnncheck.results.events import Event, MemoryMeasured, MemoryProgress, Notice, StageFinished
from rnncheck.results.gate import GateItem, Part, Ruling
from rnncheck.results.memory import Estimated, MemoryResult
from rnncheck.results.model import Outcome
from rnncheck.spec.model import Spec

_ENDED = (Outcome.ERROR, Outcome.NOT_LOOKED)
_NAMES = {
    "half_life_min": "half-life of the memory",
    "reach_min": "reach of the memory",
    "return_gain_min": "return beyond that with the state reset at every step",
}


@dataclass(frozen=True)
class MemoryBudget:
    """The least that a figure may be."""

    metric: str
    limit: float
    place: Place


def memory_budgets(spec: Spec) -> list[MemoryBudget]:
    """One for each figure that the spec limits."""
    found = []
    for i, one in enumerate(spec.gate.budgets):
        limits = one.memory
        for metric in _NAMES if limits is not None else ():
            if (limit := getattr(limits, metric)) is not None:
                place = spec.locate(("gate", "budgets", i, "memory", metric))
                found.append(MemoryBudget(metric, limit, place))
    return found


def studied(spec: Spec) -> Generator[Event, None, MemoryResult]:
    """What a study tells that belongs to a gate, and what it found."""
    found = MemoryResult()
    with closing(MemoryStudy(spec).events()) as events:
        for event in events:
            if isinstance(event, MemoryMeasured):
                found = event.result
            if isinstance(event, StageFinished) and event.result.outcome in _ENDED:
                why = f"{event.result.stage}: {event.result.detail}"
                found = replace(found, untold=(*found.untold, why))
            if isinstance(event, MemoryMeasured | MemoryProgress | Notice):
                yield event
    return found


def memory_items(budgets: list[MemoryBudget], found: MemoryResult) -> Iterator[GateItem]:
    """What was found against each budget: beyond or within where the whole interval is, else
    unclear."""
    for one in budgets:
        item = GateItem(
            Part.BUDGET,
            _NAMES[one.metric],
            Ruling.FAILED,
            limit=one.limit,
            kind="min",
            path=one.place.path,
            line=one.place.line,
            column=one.place.column,
        )
        figure, why = _figure(one.metric, found)
        if figure is None:
            yield replace(item, ruling=_without(one.metric, found), reason=why)
            continue
        ruling = limit_ruling(
            BudgetedNumber(figure.value, figure.low, figure.high), one.limit, "min"
        )
        if figure.beyond and ruling is not Ruling.PASSED:
            ruling = Ruling.UNCLEAR  # the data end before it
        beyond = "the data end before it: it is at least that" if figure.beyond else ""
        yield replace(
            item,
            ruling=Ruling.FAILED if ruling is Ruling.SLOWER else ruling,
            reason=beyond,
            value=figure.value,
            low=figure.low,
            high=figure.high,
        )


def _without(metric: str, found: MemoryResult) -> Ruling:
    """Of a budget whose figure the episodes end before: an influence that still grows there."""
    curve = found.main_curve
    grows = metric != "return_gain_min" and curve is not None and curve.horizon
    return Ruling.UNCLEAR if grows else Ruling.FAILED


def _figure(metric: str, found: MemoryResult) -> tuple[Estimated | None, str]:
    """The figure that is limited; without one, why there is none."""
    told = "; ".join(found.untold) or "the study did not come so far"
    if metric == "return_gain_min":
        under = [one for one in found.returns if one.treatment == "reset every step"]
        return (under[0].lost, "") if under else (None, told)
    curve = found.main_curve
    if curve is None:
        return None, told
    figure = curve.half_life if metric == "half_life_min" else curve.reach
    if figure is None and curve.horizon == 0:
        return None, f"no earlier observation changes {curve.output}"
    if figure is None:
        return None, f"the influence on {curve.output} is largest at its last lag, {curve.longest}"
    return figure, ""
