"""Lines over steps: with where they part, and what they are held to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rnncheck.report.pictures.canvas import COLOURS, FAULT, INK, MARKERS, Picture, drawn_svg
from rnncheck.report.text import number
from rnncheck.results.exhibits import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("-", "--", ":", "-.")
_SIZE = (6.8, 3.4)  # inches: chosen, wide, for what is read from left to right
_MANY = 5  # lines, beyond which their names stand beside the plot: chosen


def curve_picture(found: Curves) -> Picture:
    """The lines, and a row of numbers for each step."""
    steps = sorted({x for line in found.lines for x in line.x})
    known = [dict(zip(line.x, line.y, strict=False)) for line in found.lines]
    notes = [
        f"they part at step {number(found.parts_at)}" if found.parts_at is not None else "",
        f"held to {number(found.limit)}" if found.limit is not None else "",
    ]
    return Picture(
        title=found.of[:1].upper() + found.of[1:],
        svg=drawn_svg(lambda axes: _draw(axes, found), _SIZE),
        note="; ".join(filter(None, notes)),
        headings=(found.over, *(line.name for line in found.lines)),
        rows=tuple(
            (number(x), *(number(one[x]) if x in one else "" for one in known)) for x in steps
        ),
        explains=found.explains,
    )


def _draw(axes: Axes, found: Curves) -> None:
    for count, line in enumerate(found.lines):
        axes.plot(
            line.x,
            line.y,
            label=line.name,
            color=_ink(count),
            linestyle=_DASHES[(count + count // len(COLOURS)) % len(_DASHES)],
            marker=MARKERS[count % len(MARKERS)],
            markersize=3,
        )
    if found.parts_at is not None:
        axes.axvline(found.parts_at, color=FAULT, linewidth=1)
        axes.annotate(
            "part here", (found.parts_at, 1.0), xycoords=("data", "axes fraction"), color=FAULT
        )
    if found.limit is not None:
        axes.axhline(found.limit, color=FAULT, linestyle=":", label="held to")
    if found.logarithmic and any(y > 0 for line in found.lines for y in line.y):
        axes.set_yscale("log", nonpositive="mask")
    axes.set(xlabel=found.over, ylabel=found.unit)
    axes.grid(alpha=0.3)
    if len(found.lines) > 1 or found.limit is not None:
        names: Any = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
        axes.legend(fontsize="small", **(names if len(found.lines) > _MANY else {}))


def _ink(count: int) -> str:
    """A colour of the palette; black becomes the page's own."""
    found = COLOURS[count % len(COLOURS)]
    return INK if found == "#000000" else found
