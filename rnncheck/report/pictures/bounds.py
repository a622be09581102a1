"""Exhibits of a size that can be drawn, whoever stored them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rnncheck.results.exhibits import (
    MOST_ROWS,
    MOST_STEPS,
    BatchStrip,
    Curves,
    Exhibits,
    FaultWay,
    StepMatrix,
    StripRow,
)

_MOST = 16  # pictures of a kind, lines of a curve, points of a way: chosen, more than a run has


def bounded(exhibits: Exhibits) -> Exhibits:
    """``exhibits``, cut to what a run collects."""
    return replace(
        exhibits,
        strips=tuple(map(_strip, exhibits.strips[:_MOST])),
        matrices=tuple(map(_matrix, exhibits.matrices[:_MOST])),
        curves=tuple(map(_curves, exhibits.curves[:_MOST])),
        ways=tuple(map(_way, exhibits.ways[:_MOST])),
        untold=exhibits.untold[:_MOST],
    )


def _strip(strip: BatchStrip) -> BatchStrip:
    rows = tuple(map(_row, strip.rows[:MOST_ROWS]))
    marks = tuple(
        one
        for one in strip.marks[:_MOST]
        if 0 <= one.line < len(rows) and 0 <= one.position < len(rows[one.line].segments)
    )
    return replace(strip, rows=rows, marks=marks)


def _row(line: StripRow) -> StripRow:
    size = min(len(line.segments), MOST_STEPS)

    def inside(positions: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(one for one in positions[:MOST_STEPS] if 0 <= one < size)

    return replace(
        line,
        segments=line.segments[:size],
        starts=inside(line.starts),
        begins=inside(line.begins),
        ends=inside(line.ends),
        padding=inside(line.padding),
        burn_in=inside(line.burn_in),
        stored=inside(line.stored),
    )


def _matrix(matrix: StepMatrix) -> StepMatrix:
    size = min(len(matrix.values), len(matrix.places), MOST_STEPS)
    return replace(
        matrix,
        places=matrix.places[:size],
        borders=tuple(sorted({one for one in matrix.borders if 0 <= one < size})),
        values=squared(matrix.values, size),
    )


def squared(values: Sequence[Sequence[float]], size: int) -> tuple[tuple[float, ...], ...]:
    """``size`` lines of as many values, 0 where there are none."""
    return tuple((*line, *[0.0] * size)[:size] for line in values[:size])


def _curves(found: Curves) -> Curves:
    lines = []
    for line in found.lines[:_MOST]:
        size = min(len(line.x), len(line.y), MOST_STEPS)
        lines.append(replace(line, x=line.x[:size], y=line.y[:size]))
    return replace(found, lines=tuple(lines))


def _way(way: FaultWay) -> FaultWay:
    return replace(way, points=way.points[:_MOST])
