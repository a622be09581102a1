"""Plots of a study of the memory: returns, decay, step on step, error in a slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rnncheck.report.memory import curve_name
from rnncheck.report.pictures.bounds import squared
from rnncheck.report.pictures.canvas import COLOURS, INK, MARKERS, Picture, drawn_svg
from rnncheck.report.pictures.matrix import border, by_spans, shaded
from rnncheck.report.text import number
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


def memory_plots(found: MemoryResult | None) -> Iterator[Picture]:
    """Each plot that the study can fill."""
    if found is None:
        return
    if found.returns:
        yield Picture(
            "returns by treatment of the state",
            _returns(found.returns),
            headings=("treatment", "episodes", "mean return"),
            rows=tuple(
                (one.treatment, str(len(one.returns)), number(one.mean)) for one in found.returns
            ),
        )
    for main in (found.farthest(POLICY), found.farthest(CRITIC)):
        if main is not None:
            alike = _beside(found, main)
            title, lags = f"influence on {main.named} by lag", [one.lags for one in alike]
            names = [curve_name(one) for one in alike]
            yield Picture(title, _decay(alike), "", *_means("steps back", names, lags))
    if found.matrix is not None and found.matrix.values:
        yield _step_on_step(found.matrix)
    for output in dict.fromkeys(one.named for one in found.replay):
        mine = [one for one in found.replay if one.named == output]
        names, lags = [f"from {one.start}" for one in mine], [one.errors for one in mine]
        table = _means("position", names, lags)
        yield Picture(f"error of {output} in a slice", _replay(mine), "", *table)


def _beside(found: MemoryResult, main: InfluenceCurve) -> list[InfluenceCurve]:
    """The curves that share its axes: of the same outputs' owner, in the same unit."""
    return [
        one
        for one in found.curves
        if (one.unit, one.whose, one.of_state) == (main.unit, main.whose, False)
    ]


def _band(axes: Axes, lags: Sequence[AtLag], label: str, count: int) -> None:
    """The mean, and a band from 10 % to 90 %."""
    colour, x = COLOURS[count % len(COLOURS)], [one.lag for one in lags]
    mark = MARKERS[count % len(MARKERS)]
    axes.plot(x, [one.mean for one in lags], color=colour, marker=mark, markersize=3, label=label)
    axes.fill_between(
        x, [one.low for one in lags], [one.high for one in lags], color=colour, alpha=0.15
    )


def _decay(curves: Sequence[InfluenceCurve]) -> str:
    def draw(axes: Axes) -> None:
        for count, curve in enumerate(curves):
            _band(axes, curve.lags, curve_name(curve), count)
        axes.axhline(curves[0].noise, color=INK, linestyle=":", label="rounding")
        axes.set(xlabel="steps back", ylabel=curves[0].unit)
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)

    return drawn_svg(draw)


def _replay(curves: Sequence[ReplayCurve]) -> str:
    def draw(axes: Axes) -> None:
        for count, curve in enumerate(curves):
            _band(axes, curve.errors, f"from {curve.start}", count)
        axes.set(xlabel="position in the slice", ylabel=f"error ({curves[0].unit})")
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)

    return drawn_svg(draw)


def _step_on_step(matrix: InfluenceMatrix) -> Picture:
    values = squared(matrix.values, len(matrix.values))
    second = max(0, min(matrix.second, len(values)))  # a stored one may be anyone's

    def draw(axes: Axes) -> None:
        shaded(axes, values)
        border(axes, second)
        axes.set(xlabel="output at step", ylabel="observation replaced at step")

    spans = by_spans(values, (0, second))
    names = ("first episode", "second episode")
    return Picture(
        f"influence of step on step, {matrix.output}",
        drawn_svg(draw, (5.0, 4.6)),
        "The largest influence of one episode on another is in the table.",
        ("replaced in the", *(f"output in the {name}" for name in names)),
        tuple(
            (name, *(number(value) for value in line))
            for name, line in zip(names, spans, strict=False)
        ),
    )


def _means(
    over: str, names: Sequence[str], lags: Sequence[Sequence[AtLag]]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Headings and rows: the mean of each curve at each lag."""
    known = [{one.lag: one.mean for one in curve} for curve in lags]
    every = sorted({lag for one in known for lag in one})
    rows = [(str(lag), *(number(one[lag]) if lag in one else "" for one in known)) for lag in every]
    return (over, *names), tuple(rows)


def _returns(found: Sequence[ReturnsUnder]) -> str:
    def draw(axes: Axes) -> None:
        names = [one.treatment for one in found]
        means = [one.mean for one in found]
        own, spread = means[0], [one.lost for one in found]
        ends = [
            (own, own) if lost is None else (own - lost.high, own - lost.low) for lost in spread
        ]
        errors = [
            [max(0.0, mean - low) for mean, (low, _) in zip(means, ends, strict=True)],
            [max(0.0, high - mean) for mean, (_, high) in zip(means, ends, strict=True)],
        ]
        axes.barh(names, means, xerr=errors, color=COLOURS[0], ecolor=INK, capsize=3)
        axes.invert_yaxis()
        axes.set(xlabel="mean return, with the paired interval of what is lost")

    return drawn_svg(draw)
