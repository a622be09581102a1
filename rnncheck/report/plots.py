"""Plots of a sweep as SVG texts: cost against shape, speed against error, memory against speed.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. matplotlib is
imported when a plot is drawn, and draws without a display.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from rnncheck.results.cells import CellResult, Phase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"
SIZE = (6.4, 4.0)  # inches: matplotlib's width, and lower than its 4.8: chosen


def all_plots(results: Sequence[CellResult]) -> Iterator[tuple[str, str]]:
    """Title and SVG of each plot that the cells can fill."""
    measured = [result for result in results if result.timing is not None]
    for phase in Phase:
        mine = [result for result in measured if result.cell.phase is phase]
        for axis in ("steps", "batch"):
            if len({getattr(result.cell, axis) for result in mine}) > 1:
                yield f"{phase}: time against {axis}", _against(mine, axis)
        if len({result.cell.resets for result in mine}) > 1:
            yield f"{phase}: time against reset probability", _against(mine, "resets")
        if len({result.cell.variant for result in mine}) > 1:
            yield f"{phase}: speed against error", _scatter(mine, _error, "error against float64")
            yield f"{phase}: memory against speed", _scatter(mine, _memory, "peak memory (MiB)")


def drawn_svg(draw: Callable[[Axes], None]) -> str:
    """What ``draw`` draws, as an SVG element."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    draw(figure.subplots())
    out = StringIO()
    # Without a date and with fixed ids the same run gives the same file.
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _style(variants: list[str], variant: str) -> dict[str, Any]:
    index = variants.index(variant)
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}


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


def _scatter(
    results: list[CellResult], value: Callable[[CellResult], float | None], label: str
) -> str:
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
