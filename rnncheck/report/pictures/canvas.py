"""What all pictures share: colours, sizes, and an SVG that is read on light and on dark paper.

matplotlib is imported when a picture is drawn, and draws without a display.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"
SIZE = (6.4, 4.0)  # inches: matplotlib's width, and lower than its 4.8: chosen
FAULT = "#D55E00"  # vermilion, beside a sign: never by colour alone
INK = "#010203"  # stands for the colour of the page's text, light or dark
_MINOR = (1.0, 0.5)  # decades on an axis below which some, or all, of the ticks between are named
_SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rnncheck",  # the same run gives the same file
    "text.parse_math": False,  # a dollar sign in a user's name is one
    "font.size": 9,
    **{f"{name}.color": INK for name in ("text", "xtick", "ytick")},
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "legend.labelcolor"), INK),
    "legend.framealpha": 0.0,
}


@dataclass(frozen=True)
class Picture:
    """A drawing with its numbers; ``explains`` are the checks whose findings it belongs to."""

    title: str
    svg: str
    note: str = ""
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    explains: tuple[str, ...] = ()
    square: bool = False  # narrower where there is little room


def _plain_ticks(axes: Axes) -> None:
    """Numbers of a logarithmic axis as they are written elsewhere."""
    from matplotlib.ticker import FuncFormatter, LogFormatter

    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale == "log":
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(LogFormatter(minor_thresholds=_MINOR))


def drawn_svg(draw: Callable[[Axes], None], size: tuple[float, float] = SIZE) -> str:
    """What ``draw`` draws, as an SVG element in the page's own colours."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=size, layout="constrained", facecolor="none")
        axes = figure.subplots()
        axes.set_facecolor("none")
        draw(axes)
        _plain_ticks(axes)
        out = StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    text = out.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")
