"""A sweep's cells as CSV: one line a cell, numbers in SI units, for a spreadsheet or pandas."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from rnncheck.report.sweep import results_of
from rnncheck.results.cells import CellResult
from rnncheck.results.model import Run

COLUMNS = (
    "key", "phase", "target", "variant", "batch", "steps", "resets", "overrides", "status", "reason",
    "median_s", "low_s", "high_s", "cpu_s", "samples", "stopped", "reference", "speed_up",
    "speed_up_low", "speed_up_high", "output_error", "output_bound", "gradient_error",
    "gradient_bound", "peak_bytes", "reserved_bytes", "first_call_s", "compile_s", "distrust",
)  # fmt: skip


def render(run: Run) -> str:
    """The cells, with a head line."""
    out = StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for result in results_of(run):
        writer.writerow(_row(result))
    return out.getvalue()


def _row(result: CellResult) -> dict[str, Any]:
    cell, timing, ratio = result.cell, result.timing, result.ratio
    accuracy, memory = result.accuracy, result.memory
    return {
        "key": cell.key,
        "phase": str(cell.phase),
        "target": cell.target,
        "variant": cell.variant,
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
