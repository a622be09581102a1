"""The JSON that the GitHub action ``benchmark-action/github-action-benchmark`` reads for
``customSmallerIsBetter``.

An array of ``{name, unit, value, range, extra}``. Each cell whose speed counts gives its time in
ms, its peak memory in MiB and its error against the float64 oracle; names are the same from run to
run, so that the action can chart them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rnncheck.printable import json_text
from rnncheck.report import text
from rnncheck.report.printed import printed
from rnncheck.report.sweep import results_of
from rnncheck.results.cells import Accuracy, CellResult, Memory, Timing
from rnncheck.results.model import Run

MS = 1e3  # milliseconds in a second
_MIB = 2**20  # bytes

_Entry = dict[str, Any]


def render(run: Run) -> str:
    """The array; empty for a run without cells, which the action refuses as no result."""
    run = printed(run)
    entries = [entry for result in results_of(run) for entry in _entries(result, run)]
    finite = [entry for entry in entries if math.isfinite(entry["value"])]
    return json_text(finite, indent=2) + "\n"


def _entries(result: CellResult, run: Run) -> Iterator[_Entry]:
    """What one cell has; a cell that is wrong or missing has no number that may be charted."""
    if not result.counts:
        return
    name, machine = text.clean(f"{run.spec.name} | {result.cell.label}"), _machine(run)
    if result.timing:
        yield {"name": f"{name} | time", **_time(result.timing), "extra": _extra(result, machine)}
    if result.memory:
        yield {"name": f"{name} | memory", **_memory(result.memory), "extra": machine}
    if result.accuracy:
        yield {"name": f"{name} | error", **_error(result.accuracy), "extra": machine}


def _time(timing: Timing) -> _Entry:
    half = (timing.high - timing.low) / 2
    return {"unit": "ms", "value": timing.median * MS, "range": f"± {text.number(half * MS)}"}


def _memory(memory: Memory) -> _Entry:
    return {"unit": "MiB", "value": memory.peak / _MIB}


def _error(accuracy: Accuracy) -> _Entry:
    worst = max(accuracy.output, accuracy.gradient or 0.0)
    return {"unit": "relative", "value": worst}


def _extra(result: CellResult, machine: str) -> str:
    timing = result.timing
    taken = f"{timing.samples} samples" if timing else ""
    return "\n".join(filter(None, [taken, *map(text.clean, result.distrust), machine]))


def _machine(run: Run) -> str:
    env = run.environment
    versions = [
        f"{name} {env.packages[name]}" for name in ("torch", "torchrl") if name in env.packages
    ]
    return text.clean(", ".join(filter(None, [*versions, env.device, env.cpu, env.gpu])))
