"""A sweep's rows in words: what the console, Markdown and CSV say about a cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rnncheck.report import text
from rnncheck.results.cells import CellResult, Memory, Ratio, Status, Timing, cells_from_json
from rnncheck.results.model import Run
from rnncheck.results.recommendation import Recommendation

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
HEADINGS = ("variant", "time", "±", "speed-up", "error", "memory", "first call", "notes")


@dataclass(frozen=True)
class Row:
    """One cell as text, in the order of ``HEADINGS``; ``share`` is its time over the slowest of its
    group."""

    result: CellResult
    texts: tuple[str, ...]
    share: float


def results_of(run: Run) -> list[CellResult]:
    """The run's cells as objects again."""
    return list(cells_from_json(run.cells))


def rows_by_group(run: Run) -> dict[str, list[Row]]:
    """The rows under the name of their group."""
    found: dict[str, list[CellResult]] = {}
    for result in results_of(run):
        found.setdefault(result.cell.group, []).append(result)
    return {name: list(_rows(results)) for name, results in found.items()}


def _rows(results: list[CellResult]) -> Iterator[Row]:
    slowest = max((r.timing.median for r in results if r.timing), default=0.0)
    for result in results:
        timing = result.timing
        yield Row(result, texts_of(result), timing.median / slowest if timing and slowest else 0.0)


def texts_of(result: CellResult) -> tuple[str, ...]:
    """The cells of a table's row; empty where nothing was measured."""
    return (
        result.cell.variant.label,
        duration(result.timing.median) if result.timing else str(result.status),
        _relative(result.timing),
        speed_up(result.ratio) if result.ratio else "",
        _error(result),
        size(result.memory),
        duration(result.first_call) if result.first_call is not None else "",
        "; ".join(notes(result)),
    )


def notes(result: CellResult) -> list[str]:
    """Why a row is wrong or missing, and reasons to distrust it."""
    wrong = f"WRONG: {result.reason}" if result.status is Status.WRONG else result.reason
    engine = "interpreted" if result.engine == "interpreted" else ""
    return [text.clean(note) for note in (wrong, engine, *result.distrust) if note]


def duration(seconds: float) -> str:
    """``1.23 ms``: three significant digits in the unit that fits."""
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"


def size(memory: Memory | None) -> str:
    """``12.3 MiB``."""
    if memory is None:
        return ""
    unit, name = next(((u, n) for u, n in SIZES if memory.peak >= u), SIZES[-1])
    return f"{memory.peak / unit:.3g} {name}"


def _relative(timing: Timing | None) -> str:
    return f"{timing.relative:.1%}" if timing else ""


def speed_up(ratio: Ratio) -> str:
    """``1.42x [1.40, 1.44]``, or with ``unclear`` behind it."""
    said = f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{said} unclear" if ratio.verdict == "unclear" else said


def _error(result: CellResult) -> str:
    accuracy = result.accuracy
    if accuracy is None:
        return "unknown" if result.timing else ""
    return f"{max(accuracy.output, accuracy.gradient or 0.0):.1e}"


def advice(found: Recommendation) -> list[str]:
    """A recommendation in lines: what, how, and what would change it."""
    arguments = ", ".join(f'{name}="{value}"' for name, value in found.arguments.items())
    compiling = "" if found.compile == "eager" else f", and {found.compiling}"
    return [
        text.clean(found.sentence),
        f"  LSTMModule/GRUModule(..., {arguments}){compiling}",
        *(f"  {text.clean(change)}" for change in found.changes),
    ]
