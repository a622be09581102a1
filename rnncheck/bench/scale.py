"""``--scale steps=16..1024``: the sweep along one axis, and how cost grows there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from rnncheck.errors import UserError, did_you_mean
from rnncheck.numerics.statistics import CONFIDENCE
from rnncheck.results.cells import Cell, CellResult, Phase
from rnncheck.results.scaling import Scaling

AXES = {"steps": "steps", "batch": "batch", "hidden": "hidden_size", "resets": "resets"}
# Points along a range of probabilities; chosen: a line through them has 4 degrees of freedom, where
# its t interval is 1.42 times the one of many points.
RESETS = 6
FEWEST_POINTS = 3  # a line through two has no residuals, so no interval
_SCALE_FORM = "AXIS=FROM..TO with AXIS one of steps, batch, hidden, resets"


def parse_scale(text: str) -> tuple[str, list[float]]:
    """The axis and its values: doubling from FROM to TO, evenly spaced for resets. Raises
    UserError."""
    axis, _, span = text.partition("=")
    low, dots, high = span.partition("..")
    if axis not in AXES:
        raise UserError(
            f"--scale {text}: {axis!r} is no axis",
            accepted=_SCALE_FORM,
            hint=did_you_mean(axis, AXES),
        )
    try:
        first, last = float(low), float(high)
    except ValueError:
        first = last = 0.0
        dots = ""
    if not dots or not 0 <= first < last or (axis == "resets" and last > 1):
        raise UserError(
            f"--scale {text}: {span!r} is no range",
            accepted=_SCALE_FORM,
            hint="e.g. --scale steps=16..1024",
        )
    return axis, _spaced(axis, first, last)


def _spaced(axis: str, first: float, last: float) -> list[float]:
    if axis == "resets":
        return [round(float(value), 4) for value in np.linspace(first, last, RESETS)]
    values, value = [], max(1.0, first)
    while value < last:
        values.append(float(int(value)))
        value *= 2
    return [*values, float(int(last))]


def scaled_cells(cells: Sequence[Cell], axis: str, values: Iterable[float]) -> list[Cell]:
    """Each distinct cell of the sweep at every value of ``axis``; acting has no steps and no resets
    to vary."""
    kept = [c for c in cells if axis in ("batch", "hidden") or c.phase is not Phase.ACT]
    found = [_at(cell, axis, value) for value in values for cell in kept]
    return list({cell.key: cell for cell in found}.values())


def _at(cell: Cell, axis: str, value: float) -> Cell:
    if axis == "resets":
        return replace(cell, resets=value)
    if axis == "hidden":
        return replace(cell, overrides={**cell.overrides, "hidden_size": int(value)})
    return replace(cell, steps=int(value)) if axis == "steps" else replace(cell, batch=int(value))


def _value(cell: Cell, axis: str) -> float:
    if axis == "hidden":
        return float(cell.overrides.get("hidden_size", 0))
    return float(getattr(cell, axis))


def scalings(results: Sequence[CellResult], axis: str) -> list[Scaling]:
    """One fit for each phase, variant and remaining shape that has three points."""
    series: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for row in results:
        if row.counts and row.timing is not None:
            name = (str(row.cell.phase), row.cell.variant.label, _at(row.cell, axis, 1).group)
            series.setdefault(name, []).append((_value(row.cell, axis), row.timing.median))
    return [
        _fitted(phase, variant, axis, sorted(points))
        for (phase, variant, _), points in series.items()
        if len({x for x, _ in points}) >= FEWEST_POINTS
    ]


def _fitted(phase: str, variant: str, axis: str, points: list[tuple[float, float]]) -> Scaling:
    x, y = (np.array(values) for values in zip(*points, strict=True))
    linear = axis == "resets"
    a, b = (x, y) if linear else (np.log(x), np.log(y))
    slope, base, half = _line(a, b)
    fit = base + slope * a
    off = np.abs(b / fit - 1) if linear else np.abs(np.expm1(b - fit))
    scale = base if linear else 1.0
    return Scaling(
        phase, variant, axis, tuple(points), slope / scale,
        (slope - half) / scale, (slope + half) / scale, float(off.max()),
    )  # fmt: skip


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Slope, intercept, and half the slope's interval (ordinary least squares)."""
    centred = x - x.mean()
    power = float(centred @ centred)
    slope = float(centred @ y) / power
    base = float(y.mean() - slope * x.mean())
    rest = y - base - slope * x
    free = len(x) - 2
    error = np.sqrt(float(rest @ rest) / free / power)
    return slope, base, float(stdtrit(free, (1 + CONFIDENCE) / 2) * error)
