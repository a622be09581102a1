"""CSV for a spreadsheet or pandas: one line a cell of a sweep, in SI units, or one a check and
finding.

A gate gives what it decided; its cells and checks are in the JSON.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import Any

from rnncheck.report import gate, text
from rnncheck.report.printed import printed
from rnncheck.report.sweep import results_of
from rnncheck.results.cells import CellResult
from rnncheck.results.gate import GateItem
from rnncheck.results.memory import AtLag, MemoryResult
from rnncheck.results.model import CheckResult, Finding, Run

COLUMNS = (
    "key",
    "phase",
    "target",
    "variant",
    "batch",
    "steps",
    "resets",
    "overrides",
    "status",
    "reason",
    "median_s",
    "low_s",
    "high_s",
    "cpu_s",
    "samples",
    "stopped",
    "reference",
    "speed_up",
    "speed_up_low",
    "speed_up_high",
    "output_error",
    "output_bound",
    "gradient_error",
    "gradient_bound",
    "peak_bytes",
    "reserved_bytes",
    "first_call_s",
    "compile_s",
    "distrust",
)

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that is computed

DECIDED = (
    "part",
    "name",
    "ruling",
    "value",
    "low",
    "high",
    "unit",
    "kind",
    "limit",
    "ratios",
    "reason",
    "at",
)
CHECKED = (
    "code",
    "name",
    "severity",
    "stage",
    "outcome",
    "reason",
    "message",
    "key",
    "measured",
    "bound",
    "fix",
    "at",
)


MEASURED = (
    "what",
    "name",
    "method",
    "through",
    "agent",
    "at",
    "count",
    "mean",
    "low",
    "median",
    "high",
    "largest",
    "unit",
)


def render(run: Run) -> str:
    """The gate's items where there are any, else what a study of the memory measured, else the
    cells, else the checks; with a head line."""
    run = printed(run)
    if run.gate:
        return _table(DECIDED, map(_item, run.gate))
    if run.memory is not None:
        return _table(MEASURED, _measures(run.memory))
    rows = [_row(result) for result in results_of(run)]
    if rows:
        return _table(COLUMNS, rows)
    return _table(CHECKED, [line for check in run.checks for line in _lines(check)])


def _table(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> str:
    out = StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _inert(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _measures(found: MemoryResult) -> Iterator[dict[str, Any]]:
    """A line for each lag of each curve, each position of a slice, each treatment of the state."""
    for curve in found.curves:
        head = {"what": "influence", "name": curve.named, "method": curve.method}
        more = {"through": curve.through, "agent": curve.agent, "unit": curve.unit}
        yield from ({**head, **more, **_at_lag(one)} for one in curve.lags)
    for replay in found.replay:
        head = {"what": "replay", "name": replay.named, "method": replay.start}
        yield from ({**head, "unit": replay.unit, **_at_lag(one)} for one in replay.errors)
    for state in found.states:
        for step, norm in enumerate(state.norms):
            yield {"what": "norm", "name": state.named, "at": step, "median": norm}
    for under in found.returns:
        yield {
            "what": "return lost",
            "name": under.treatment,
            "method": str(under.effect or ""),
            "count": len(under.returns),
            "mean": under.lost and under.lost.value,
            "low": under.lost and under.lost.low,
            "high": under.lost and under.lost.high,
        }


def _at_lag(one: AtLag) -> dict[str, Any]:
    return {
        "at": one.lag,
        "count": one.pairs,
        "mean": one.mean,
        "low": one.low,
        "median": one.median,
        "high": one.high,
        "largest": one.largest,
    }


def _inert(value: Any) -> Any:
    """A text that a spreadsheet takes for a formula gets the sign that makes it a text there."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _item(item: GateItem) -> dict[str, Any]:
    return {
        "part": str(item.part),
        "name": gate.name(item),
        "ruling": str(item.ruling),
        "value": item.value,
        "low": item.low,
        "high": item.high,
        "unit": text.clean(item.unit),
        "kind": text.clean(item.kind),
        "limit": item.limit,
        "ratios": " ".join(map(str, item.ratios)),
        "reason": text.clean(item.reason),
        "at": gate.item_place(item),
    }


def _lines(check: CheckResult) -> Iterator[dict[str, Any]]:
    """A line for each finding, or one for a check without."""
    head = {
        "code": check.code,
        "name": check.name,
        "severity": str(check.severity),
        "stage": str(check.stage),
        "outcome": text.outcome_word(check).replace(" ", "-"),
        "reason": text.clean(check.accepted or check.reason),
    }
    for finding in check.findings or (None,):
        yield head if finding is None else {**head, **_found(finding)}


def _found(finding: Finding) -> dict[str, Any]:
    return {
        "message": text.clean(finding.message),
        "key": text.clean(finding.key),
        "measured": finding.measured,
        "bound": finding.bound,
        "fix": text.clean(finding.fix),
        "at": text.clean(text.source_place(finding.source)),
    }


def _row(result: CellResult) -> dict[str, Any]:
    cell, timing, ratio = result.cell, result.timing, result.ratio
    accuracy, memory = result.accuracy, result.memory
    return {
        "key": cell.key,
        "phase": str(cell.phase),
        "target": cell.target,
        "variant": cell.variant.label,
        "batch": cell.batch,
        "steps": cell.steps,
        "resets": cell.resets,
        "overrides": " ".join(f"{name}={value}" for name, value in sorted(cell.overrides.items())),
        "status": str(result.status),
        "reason": result.reason,
        "median_s": timing and timing.median,
        "low_s": timing and timing.low,
        "high_s": timing and timing.high,
        "cpu_s": timing and timing.cpu,
        "samples": timing and timing.samples,
        "stopped": timing and timing.stopped,
        "reference": ratio and ratio.reference,
        "speed_up": ratio and ratio.value,
        "speed_up_low": ratio and ratio.low,
        "speed_up_high": ratio and ratio.high,
        "output_error": accuracy and accuracy.output,
        "output_bound": accuracy and accuracy.output_bound,
        "gradient_error": accuracy and accuracy.gradient,
        "gradient_bound": accuracy and accuracy.gradient_bound,
        "peak_bytes": memory and memory.peak,
        "reserved_bytes": memory and memory.reserved,
        "first_call_s": result.first_call,
        "compile_s": result.compile,
        "distrust": "; ".join(result.distrust),
    }
