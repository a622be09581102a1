"""Who moves whom, as a matrix of steps or of segments; what lies off the blocks stands out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from rnncheck.report.pictures.canvas import (
    COLOURS,
    FAULT,
    INK,
    Picture,
    drawn_svg,
)
from rnncheck.report.text import number
from rnncheck.results.exhibits import StepMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = (6.0, 5.2)  # inches: the matrix is square
_LEAST = 0.12  # opacity of the smallest influence: chosen, still seen
_DECADES = 4.0  # that the shades cover below the largest: chosen, what rounding does not reach
_CROSS = 9000.0  # points squared over the squared number of lines: a third of a cell
Grid = Sequence[Sequence[float]]


def matrix_picture(matrix: StepMatrix) -> Picture:
    """The matrix, and the largest influence of each segment on each other one."""
    if not matrix.values:
        raise ValueError("the matrix is empty")
    who = "segment" if matrix.by_segment else "step"
    labels = [f"row {row}, step {step}" for row, step in _firsts(matrix)]
    return Picture(
        title=f"Who moves whom, {who} by {who}: {matrix.of}, {matrix.output}",
        svg=drawn_svg(lambda axes: _draw(axes, matrix), _SIZE),
        note=note_of(matrix),
        headings=("given in the segment from", *(f"read from {label}" for label in labels)),
        rows=tuple(
            (label, *(number(value) for value in line))
            for label, line in zip(labels, by_blocks(matrix), strict=True)
        ),
        explains=matrix.explains,
        square=True,
    )


def note_of(matrix: StepMatrix) -> str:
    """What the colours mean, and what lies off the blocks."""
    count, codes = matrix.crossings, " and ".join(matrix.judged_by)
    unit = f"Colour: {matrix.unit}, stronger is more."
    if not count:
        return f"{unit} Nothing lies off the blocks."
    if matrix.broken:
        return f"{unit} {count} entries off the blocks, marked with a cross: {codes}."
    known = f"{codes} passed" if codes else "no check judged them"
    return f"{unit} {count} entries off the blocks are no finding ({known})."


def _firsts(matrix: StepMatrix) -> list[tuple[int, int]]:
    return [matrix.places[one] for one in matrix.borders]


def by_blocks(matrix: StepMatrix) -> list[list[float]]:
    """The largest value of each pair of segments."""
    return by_spans(matrix.values, matrix.borders)


def by_spans(values: Grid, begins: Sequence[int]) -> list[list[float]]:
    """The largest value of each pair of spans, which begin at these positions."""
    spans = [range(a, b) for a, b in pairwise([*begins, len(values)])]
    return [
        [max((values[i][j] for i in lines for j in columns), default=0.0) for columns in spans]
        for lines in spans
    ]


def shaded(axes: Axes, values: Grid, wrong: Sequence[tuple[int, int]] = ()) -> None:
    """The values as shades of blue, smaller ones lighter; those of ``wrong`` in vermilion."""
    import numpy as np
    from matplotlib.colors import to_rgb

    sizes = np.abs(np.nan_to_num(np.asarray(values, dtype=float)))
    largest = float(sizes.max(initial=0.0))
    with np.errstate(divide="ignore"):
        depth = np.log10(sizes / largest) / _DECADES + 1.0 if largest > 0 else sizes * 0.0
    cells = np.zeros((*sizes.shape, 4))
    cells[..., :3] = to_rgb(COLOURS[0])
    for place in wrong:
        cells[(*place, slice(0, 3))] = to_rgb(FAULT)
    cells[..., 3] = np.where(sizes > 0, np.clip(depth, 0.0, 1.0) * (1 - _LEAST) + _LEAST, 0.0)
    axes.imshow(cells, origin="upper", interpolation="none")


def border(axes: Axes, at: float) -> None:
    """The border of a segment, on both axes."""
    for line in (axes.axhline, axes.axvline):
        line(at - 0.5, color=INK, linewidth=0.8)


def _draw(axes: Axes, matrix: StepMatrix) -> None:
    values = matrix.values
    off = [
        (i, j)
        for i, line in enumerate(values)
        for j, value in enumerate(line)
        if value != 0 and not matrix.allowed(i, j)
    ]
    shaded(axes, values, off if matrix.broken else ())
    if matrix.broken and off:
        lines, columns = zip(*off, strict=True)
        size = _CROSS / len(values) ** 2
        axes.scatter(columns, lines, marker="x", s=size, color=INK, linewidths=0.6)
    for one in matrix.borders[1:]:
        border(axes, one)
    ticks = list(matrix.borders)
    names = [f"{matrix.places[one][0]}:{matrix.places[one][1]}" for one in ticks]
    axes.set_xticks(ticks, names, rotation=90)
    axes.set_yticks(ticks, names)
    what = "replaced" if "replaced" in matrix.unit else "observed"
    axes.set(xlabel=f"{what} at row:step", ylabel=f"{matrix.output} at row:step")
