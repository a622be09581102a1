"""The spec's budgets: which cells each needs, and what the measured rows say about it.

A budget is broken, or kept, only where the whole interval of what was measured says so. One whose
cell could not be measured, or gave wrong numbers, fails: a gate that cannot look is closed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rnncheck.bench.pairs import paired
from rnncheck.errors import Place
from rnncheck.gate.cells import cell_of, variant_at
from rnncheck.results.cells import MIB, Accuracy, Cell, CellResult, Memory, Phase, Ratio, Timing
from rnncheck.results.gate import GateItem, Part, Ruling
from rnncheck.results.noise import widened
from rnncheck.spec.model import KeyPath, Spec
from rnncheck.spec.settings import BudgetSpec, SpeedupLimit

RowsByKey = Mapping[str, CellResult]  # by the key of their cell
_UNITS = {"speedup": "x", "overhead": "x", "memory_mib": "MiB", "error": ""}


@dataclass(frozen=True)
class Budget:
    """One budget: ``cell`` is what it limits, ``other`` what that is measured against in the same
    rounds."""

    metric: str  # the key in the spec: train_ms, speedup, ...
    limit: float
    place: Place
    cell: Cell
    other: Cell | None = None

    @property
    def kind(self) -> str:
        return "min" if self.metric == "speedup" else "max"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """What must be measured for it."""
        return (self.cell,) if self.other is None else (self.cell, self.other)

    @property
    def name(self) -> str:
        """In words."""
        variant, group = self.cell.variant.label, self.cell.group
        match self.metric:
            case "speedup" if self.other is not None:
                return f"speed-up of {variant} over {self.other.variant.label}, {group}"
            case "overhead":
                return f"time of {variant} over its bare module's, {group}"
            case "memory_mib":
                return f"peak memory of {variant}, {group}"
            case "error":
                return f"error of {variant} against float64, {group}"
        return f"time of {variant}, {group}"


@dataclass(frozen=True)
class BudgetedNumber:
    """A number with its 95 % interval, in the unit of its budget."""

    value: float
    low: float
    high: float


def budgets_of(spec: Spec) -> list[Budget]:
    """The budgets of ``spec`` that cells decide. Raises SpecError for a variant that does not
    exist."""
    return [
        _budget(one, spec, ("gate", "budgets", i))
        for i, one in enumerate(spec.gate.budgets)
        if one.memory is None
    ]


def _budget(one: BudgetSpec, spec: Spec, at: KeyPath) -> Budget:
    (metric,) = one.model_fields_set
    wanted, here = getattr(one, metric), (*at, metric)
    timed = metric.endswith("_ms")
    phase = Phase(metric.removesuffix("_ms") if timed else wanted.phase)
    cell = cell_of(wanted, spec, here, phase)
    place = spec.locate(here)
    if isinstance(wanted, SpeedupLimit):
        other = replace(cell, variant=variant_at(wanted.over, spec, (*here, "over")))
        return Budget(metric, wanted.min, place, cell, other)
    if metric == "overhead":
        whole = replace(cell, target="policy")
        return Budget(metric, wanted.max, place, whole, replace(cell, target="module"))
    return Budget(metric, wanted.max, place, cell)


def budget_item(budget: Budget, rows: RowsByKey) -> GateItem:
    """What the measured rows say about ``budget``."""
    item = GateItem(
        part=Part.BUDGET,
        name=budget.name,
        ruling=Ruling.FAILED,
        limit=budget.limit,
        kind=budget.kind,
        unit=_UNITS.get(budget.metric, "ms"),
        path=budget.place.path,
        line=budget.place.line,
        column=budget.place.column,
    )
    trouble = [said for cell in budget.cells if (said := why_uncounted(cell, rows.get(cell.key)))]
    if trouble:
        return replace(item, reason="; ".join(trouble))
    found = _measured(budget, rows)
    if found is None:
        return replace(item, reason=f"{_LACKING[_family(budget.metric)]} could not be measured")
    ruling, reason = limit_ruling(found, budget.limit, budget.kind), _reason(budget, rows)
    return replace(
        item, ruling=ruling, reason=reason, value=found.value, low=found.low, high=found.high
    )


def why_uncounted(cell: Cell, row: CellResult | None) -> str:
    """Why the row of ``cell`` has nothing that counts; empty where it does."""
    if row is None:
        return f"{cell.label}: was not measured"
    if row.counts:
        return ""
    said = f" ({row.reason})" if row.reason else ""
    return f"{cell.label}: {row.status}{said}"


def limit_ruling(found: BudgetedNumber, limit: float, kind: str) -> Ruling:
    """Beyond or within the limit where the whole interval is; else unclear."""
    beyond = found.low > limit if kind == "max" else found.high < limit
    within = found.high <= limit if kind == "max" else found.low >= limit
    if beyond:
        return Ruling.SLOWER
    return Ruling.PASSED if within else Ruling.UNCLEAR


_LACKING = {
    "memory": "the memory of a call (this system does not tell it)",
    "error": "the error (no output that could be compared)",
    "ratio": "the ratio (no round that both were in)",
}


def _family(metric: str) -> str:
    return {"memory_mib": "memory", "error": "error"}.get(metric, "ratio")


def _measured(budget: Budget, rows: RowsByKey) -> BudgetedNumber | None:
    row = rows[budget.cell.key]
    if budget.other is not None:
        other = rows[budget.other.key]
        whole = budget.metric == "overhead"
        return _of_ratio(paired(other, row) if whole else paired(row, other))
    if budget.metric == "memory_mib":
        return _of_memory(row.memory)
    if budget.metric == "error":
        return _of_accuracy(row.accuracy)
    return None if row.timing is None else _of_timing(row.timing)


def _of_ratio(ratio: Ratio | None) -> BudgetedNumber | None:
    return None if ratio is None else BudgetedNumber(ratio.value, ratio.low, ratio.high)


def _of_timing(timing: Timing) -> BudgetedNumber:
    """In milliseconds; wider than what one process saw, by what another would give."""
    half = widened(math.log(timing.high / timing.low) / 2)
    middle = timing.median * 1e3
    return BudgetedNumber(middle, middle * math.exp(-half), middle * math.exp(half))


def _of_memory(memory: Memory | None) -> BudgetedNumber | None:
    """In MiB; the least and the most of several calls, where there were several."""
    if memory is None:
        return None
    values = [memory.peak if one is None else one for one in (memory.low, memory.high)]
    return BudgetedNumber(memory.peak / MIB, values[0] / MIB, values[1] / MIB)


def _of_accuracy(accuracy: Accuracy | None) -> BudgetedNumber | None:
    """The larger of both errors; the same data give the same numbers, so that it is its own
    interval."""
    if accuracy is None:
        return None
    return BudgetedNumber(accuracy.error, accuracy.error, accuracy.error)


def _reason(budget: Budget, rows: RowsByKey) -> str:
    """Why the times may be distrusted; an unclear number is easier to mend with it."""
    if _UNITS.get(budget.metric, "ms") not in ("ms", "x"):
        return ""
    notes = dict.fromkeys(note for cell in budget.cells for note in rows[cell.key].distrust)
    return "; ".join(notes)
