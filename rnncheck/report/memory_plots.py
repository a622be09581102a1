"""Plots of a study of the memory as SVG text: returns, decay, step on step, error in a slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rnncheck.report.memory import curve_name
from rnncheck.report.plots import COLOURS, MARKERS, drawn_svg
from rnncheck.results.memory import (
    CRITIC,
    POLICY,
    AtLag,
    InfluenceCurve,
    InfluenceMatrix,
    MemoryResult,
    ReplayCurve,
    ReturnsUnder,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def memory_plots(found: MemoryResult | None) -> Iterator[tuple[str, str]]:
    """Title and SVG of each plot that the study can fill."""
    if found is None:
        return
    if found.returns:
        yield "returns by treatment of the state", _returns(found.returns)
    for main in (found.farthest(POLICY), found.farthest(CRITIC)):
        if main is not None:
            yield f"influence on {main.named} by lag", _decay(_beside(found, main))
    if found.matrix is not None:
        yield f"influence of step on step, {found.matrix.output}", _matrix(found.matrix)
    for output in dict.fromkeys(one.named for one in found.replay):
        mine = [one for one in found.replay if one.named == output]
        yield f"error of {output} in a slice", _replay(mine)


def _beside(found: MemoryResult, main: InfluenceCurve) -> list[InfluenceCurve]:
    """The curves that share its axes: of the same outputs' owner, in the same unit."""
    return [
        one
        for one in found.curves
        if (one.unit, one.whose, one.of_state) == (main.unit, main.whose, False)
    ]


def _band(axes: Axes, lags: Sequence[AtLag], label: str, number: int) -> None:
    """The mean, and a band from 10 % to 90 %."""
    colour, x = COLOURS[number % len(COLOURS)], [one.lag for one in lags]
    mark = MARKERS[number % len(MARKERS)]
    axes.plot(x, [one.mean for one in lags], color=colour, marker=mark, markersize=3, label=label)
    axes.fill_between(
        x, [one.low for one in lags], [one.high for one in lags], color=colour, alpha=0.15
    )


def _decay(curves: Sequence[InfluenceCurve]) -> str:
    def draw(axes: Axes) -> None:
        for number, curve in enumerate(curves):
            _band(axes, curve.lags, curve_name(curve), number)
        axes.axhline(curves[0].noise, color="black", linestyle=":", label="rounding")
        axes.set(xlabel="steps back", ylabel=curves[0].unit)
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)

    return drawn_svg(draw)


def _replay(curves: Sequence[ReplayCurve]) -> str:
    def draw(axes: Axes) -> None:
        for number, curve in enumerate(curves):
            _band(axes, curve.errors, f"from {curve.start}", number)
        axes.set(xlabel="position in the slice", ylabel=f"error ({curves[0].unit})")
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)

    return drawn_svg(draw)


def _matrix(matrix: InfluenceMatrix) -> str:
    def draw(axes: Axes) -> None:
        axes.imshow(matrix.values, cmap="Greys", origin="upper", interpolation="nearest")
        for line in (axes.axhline, axes.axvline):
            line(matrix.second - 0.5, color=COLOURS[1], linewidth=1)
        axes.set(xlabel="output at step", ylabel="observation replaced at step")

    return drawn_svg(draw)


def _returns(found: Sequence[ReturnsUnder]) -> str:
    def draw(axes: Axes) -> None:
        names = [one.treatment for one in found]
        means = [sum(one.returns) / len(one.returns) for one in found]
        own, spread = means[0], [one.lost for one in found]
        ends = [
            (own, own) if lost is None else (own - lost.high, own - lost.low) for lost in spread
        ]
        errors = [
            [max(0.0, mean - low) for mean, (low, _) in zip(means, ends, strict=True)],
            [max(0.0, high - mean) for mean, (_, high) in zip(means, ends, strict=True)],
        ]
        axes.barh(names, means, xerr=errors, color=COLOURS[0], ecolor=COLOURS[6], capsize=3)
        axes.invert_yaxis()
        axes.set(xlabel="mean return, with the paired interval of what is lost")

    return drawn_svg(draw)
