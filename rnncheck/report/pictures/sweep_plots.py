"""Plots of a sweep: cost against shape, speed against error, memory against speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rnncheck.report.pictures.canvas import COLOURS, INK, MARKERS, Picture, drawn_svg
from rnncheck.report.sweep import duration
from rnncheck.report.text import number
from rnncheck.results.cells import CellResult, Phase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Value = Callable[[CellResult], float | None]


def all_plots(results: Sequence[CellResult]) -> Iterator[Picture]:
    """Each plot that the cells can fill."""
    measured = [result for result in results if result.timing is not None]
    for phase in Phase:
        mine = [result for result in measured if result.cell.phase is phase]
        for axis in ("steps", "batch"):
            if len({getattr(result.cell, axis) for result in mine}) > 1:
                yield _over(f"{phase}: time against {axis}", mine, axis)
        if len({result.cell.resets for result in mine}) > 1:
            yield _over(f"{phase}: time against reset probability", mine, "resets")
        if len({result.cell.variant for result in mine}) > 1:
            for title, value, label in (
                ("speed against error", _error, "error against float64"),
                ("memory against speed", _memory, "peak memory (MiB)"),
            ):
                yield _beside(f"{phase}: {title}", mine, value, label)


def _over(title: str, results: list[CellResult], axis: str) -> Picture:
    rows = [
        (
            row.cell.variant.label,
            *(number(getattr(row.cell, name)) for name in ("batch", "steps", "resets")),
            *(duration(one) for one in (row.timing.median, row.timing.low, row.timing.high)),
        )
        for row in results
        if row.timing is not None
    ]
    headings = ("variant", "batch", "steps", "resets", "median", "from", "to")
    return Picture(title, _against(results, axis), headings=headings, rows=tuple(rows))


def _beside(title: str, results: list[CellResult], value: Value, label: str) -> Picture:
    rows = [
        (row.cell.variant.label, row.cell.group, number(1 / row.timing.median), number(found))
        for row in results
        if row.timing is not None and (found := value(row)) is not None
    ]
    headings = ("variant", "shape", "calls a second", label)
    return Picture(title, _scatter(results, value, label), headings=headings, rows=tuple(rows))


def _style(variants: list[str], variant: str) -> dict[str, Any]:
    index = variants.index(variant)
    colour = COLOURS[index % len(COLOURS)]
    mark = MARKERS[index % len(MARKERS)]
    return {"color": INK if colour == "#000000" else colour, "marker": mark}


def _against(results: list[CellResult], axis: str) -> str:
    """One line a variant and setting: the median with its interval, both axes logarithmic where
    they can be."""
    variants = _variants(results)

    def draw(axes: Axes) -> None:
        for (variant, rest), rows in _series(results, axis).items():
            rows.sort(key=lambda row: getattr(row.cell, axis))
            x = [getattr(row.cell, axis) for row in rows]
            y, low, high = zip(*(_times(row) for row in rows), strict=True)
            label = f"{variant}, {rest}" if rest else variant
            axes.errorbar(
                x, y, yerr=(low, high), label=label, capsize=2, **_style(variants, variant)
            )
        axes.set(xlabel=axis, ylabel="seconds a call", yscale="log")
        if axis != "resets":
            axes.set_xscale("log", base=2)
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)

    return drawn_svg(draw)


def _times(row: CellResult) -> tuple[float, float, float]:
    assert row.timing is not None
    timing = row.timing
    return timing.median, timing.median - timing.low, timing.high - timing.median


def _series(results: list[CellResult], axis: str) -> dict[tuple[str, str], list[CellResult]]:
    found: dict[tuple[str, str], list[CellResult]] = {}
    for row in results:
        found.setdefault((row.cell.variant.label, _rest(row, results, axis)), []).append(row)
    return found


def _rest(row: CellResult, results: list[CellResult], axis: str) -> str:
    """What else differs between the rows, in words."""
    names = [name for name in ("batch", "steps", "resets") if name != axis]
    varied = [n for n in names if len({getattr(r.cell, n) for r in results}) > 1]
    parts = [f"{name} {getattr(row.cell, name):g}" for name in varied]
    return ", ".join([*parts, *(f"{k} {v}" for k, v in sorted(row.cell.overrides.items()))])


def _variants(results: list[CellResult]) -> list[str]:
    return list(dict.fromkeys(row.cell.variant.label for row in results))


def _error(row: CellResult) -> float | None:
    accuracy = row.accuracy
    return None if accuracy is None else max(accuracy.output, accuracy.gradient or 0.0)


def _memory(row: CellResult) -> float | None:
    return None if row.memory is None else row.memory.peak / 2**20


def _scatter(results: list[CellResult], value: Value, label: str) -> str:
    """Calls a second against ``value``, one point a row."""
    variants = _variants(results)

    def draw(axes: Axes) -> None:
        for variant in variants:
            rows = [r for r in results if r.cell.variant.label == variant]
            pairs = [(1 / r.timing.median, v) for r in rows if r.timing and (v := value(r))]
            x, y = [speed for speed, _ in pairs], [v for _, v in pairs]
            axes.scatter(x, y, label=variant, **_style(variants, variant))
        axes.set(xlabel="calls a second", ylabel=label, xscale="log", yscale="log")
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)

    return drawn_svg(draw)
