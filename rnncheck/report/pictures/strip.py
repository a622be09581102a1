"""A batch as rows of steps: stretches, start flags, ends, padding, burn-in, stored states, the
faulty step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from rnncheck.report.pictures.canvas import COLOURS, FAULT, INK, Picture, drawn_svg
from rnncheck.results.exhibits import BatchStrip, StripRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEADINGS = ("row", "steps", "stretches", "start flags", "ends", "stored states", "padding")
_LINE = 0.42  # inches of a row; the axis and the legend take the rest
_REST = 1.5
_TINTS = (COLOURS[0], COLOURS[4])


def strip_picture(strip: BatchStrip) -> Picture:
    """The strip with a row of numbers for each line."""
    lines = strip.rows
    if not lines:
        raise ValueError("the strip is empty")
    marks = ", ".join(
        f"{one.code} at {lines[one.line].label}, step {lines[one.line].first + one.position}"
        for one in strip.marks
    )
    left = f"{strip.left_out} are shown" if strip.left_out else ""
    return Picture(
        title=f"The batch, step by step: {strip.of}",
        svg=drawn_svg(lambda axes: _draw(axes, strip), (9.0, _REST + _LINE * len(lines))),
        note="; ".join(part for part in (f"marked: {marks}" if marks else "", left) if part),
        headings=_HEADINGS,
        rows=tuple(_numbers(line) for line in lines),
        explains=strip.explains,
    )


def stretches(line: StripRow) -> Iterator[tuple[int, int, int]]:
    """Begin, end and number of each stretch of steps that follow each other in time."""
    shown = line.segments
    cuts = [0, *(i for i in range(1, len(shown)) if shown[i] != shown[i - 1]), len(shown)]
    for begin, end in pairwise(cuts):
        if end > begin:
            yield begin, end, shown[begin]


def _numbers(line: StripRow) -> tuple[str, ...]:
    last = line.first + len(line.segments) - 1
    found = ", ".join(f"{line.first + b}-{line.first + e - 1}" for b, e, _ in stretches(line))
    listed = (_steps(line, one) for one in (line.starts, line.ends, line.stored, line.padding))
    return (line.label, f"{line.first}-{last}", found, *listed)


def _steps(line: StripRow, positions: tuple[int, ...]) -> str:
    return ", ".join(str(line.first + one) for one in positions) or "none"


def _draw(axes: Axes, strip: BatchStrip) -> None:
    lines = strip.rows
    for y, line in enumerate(lines):
        _draw_line(axes, y, line)
    for mark in strip.marks:
        x, y = mark.position + 0.5, mark.line
        axes.broken_barh(
            [(mark.position, 1)], (y - 0.42, 0.84), facecolors="none", edgecolor=FAULT, linewidth=2
        )
        axes.annotate(mark.code, (x, y - 0.62), color=FAULT, ha="center", weight="bold")
    _signs(axes, lines)
    width = max((len(line.segments) for line in lines), default=1)
    axes.set(xlim=(-0.5, width + 0.5), ylim=(len(lines) - 0.3, -0.95))
    axes.set_yticks(range(len(lines)), [line.label for line in lines])
    axes.set_xlabel("step" if all(line.first == 0 for line in lines) else "position in the line")
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(left=False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=4, fontsize="small")
        axes.xaxis.set_label_position("top")
        axes.xaxis.tick_top()


def _draw_line(axes: Axes, y: int, line: StripRow) -> None:
    for count, (begin, end, number) in enumerate(stretches(line)):
        tint = "none" if number < 0 else _TINTS[count % 2]
        axes.broken_barh(
            [(begin + 0.06, end - begin - 0.12)], (y - 0.3, 0.6),
            facecolors=tint, edgecolor=INK, alpha=0.45, linewidth=0.6,
        )  # fmt: skip
    for positions, hatch in ((line.padding, "////"), (line.burn_in, "....")):
        axes.broken_barh(
            [(one, 1) for one in positions], (y - 0.3, 0.6),
            facecolors="none", edgecolor=INK, hatch=hatch, linewidth=0.0,
        )  # fmt: skip


def _signs(axes: Axes, lines: tuple[StripRow, ...]) -> None:
    """What is true of single steps, each kind with one entry of the legend."""
    kinds = (
        ("start flag", "^", "starts", (0.5, 0.2)),
        ("episode begins", "|", "begins", (0.0, 0.0)),
        ("end of an episode", "s", "ends", (0.5, -0.2)),
        ("stored state is read", "o", "stored", (0.5, 0.0)),
    )
    for label, marker, name, (right, down) in kinds:
        points = [
            (one + right, y + down) for y, line in enumerate(lines) for one in getattr(line, name)
        ]
        if points:
            x, heights = zip(*points, strict=True)
            size = 160 if marker == "|" else 14
            axes.scatter(x, heights, marker=marker, s=size, color=INK, label=label, zorder=4)
    for label, name, hatch in (("padding", "padding", "////"), ("burn-in", "burn_in", "....")):
        if any(getattr(line, name) for line in lines):
            axes.broken_barh([], (0, 0), facecolors="none", edgecolor=INK, hatch=hatch, label=label)
