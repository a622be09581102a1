"""A run with exhibits, as a leak of the loss would leave them; and exhibits of nobody's."""

from __future__ import annotations

from dataclasses import replace

from rnncheck.results.exhibits import (
    BatchStrip,
    Curves,
    Exhibits,
    FaultWay,
    Line,
    Marked,
    StepMatrix,
    StripRow,
    WayPoint,
)
from tests.report.canned import BROKEN, HEALTHY

CAUSE = "WR103"  # of the canned run
STRIP = BatchStrip(
    "training batch 0, (2, 8)",
    (
        StripRow("row 0", 0, (0, 0, 0, 1, 1, 1, 2, 2), (0, 3), (0,), (2,), stored=(3,)),
        StripRow("row 1", 0, (0, 0, 0, 0, 0, 0, -1, -1), (0,), (0,), (5,), (6, 7), (0, 1)),
    ),
    (Marked(0, 6, CAUSE),),
    explains=(CAUSE,),
)
MAP = StepMatrix(
    "loss",
    "next value",
    "largest change where a whole segment is replaced",
    ((0, 0), (0, 3), (0, 6)),
    (0, 1, 2),
    ((0.5, 0.0, 0.0), (0.25, 0.5, 0.0), (0.0, 0.125, 0.5)),
    by_segment=True,
    judged_by=("LS701",),
    broken=True,
    explains=(CAUSE,),
)
CURVE = Curves(
    "recorded against replayed, next.h",
    "step of the trajectory",
    "norm of next.h",
    (
        Line("recorded", (0.0, 1.0, 2.0), (1.0, 1.5, 0.25)),
        Line("replayed alone", (0.0, 1.0, 2.0), (1.0, 1.5, 2.0)),
    ),
    parts_at=2.0,
    explains=(CAUSE,),
)
WAY = FaultWay(
    "the way of the foreign value",
    (
        WayPoint("loss", "embed (pass 2)", "row 0, step 3", "a recurrent module inside the loss"),
        WayPoint("loss", "next value", "row 0, step 3"),
        WayPoint("loss", "target", "row 0, step 3"),
    ),
    (CAUSE,),
)
EXHIBITS = Exhibits((STRIP,), (MAP,), (CURVE,), (WAY,), ("the estimator: it raises",), whole=True)
DRAWN = replace(BROKEN, exhibits=EXHIBITS)
SHOWN_HEALTHY = replace(
    HEALTHY, exhibits=replace(EXHIBITS, strips=(replace(STRIP, marks=(), explains=()),), ways=())
)
# What no run collects: too long, ragged, out of range, no numbers.
ODD = Exhibits(
    strips=(
        replace(STRIP, rows=(replace(STRIP.rows[0], starts=(99, -4)),) * 500),
        replace(STRIP, rows=(), marks=(Marked(7, 7, "X"),)),
    ),
    matrices=(
        replace(MAP, values=((float("nan"),), (float("inf"), 1.0)), borders=(9, -1, 0)),
        replace(MAP, places=((0, 0),) * 300, values=((1.0,) * 300,) * 300),
        replace(MAP, places=(), values=()),
    ),
    curves=(
        replace(CURVE, lines=(Line("$\\frac{", (1.0,), ()),), logarithmic=True),
        replace(CURVE, lines=(Line("a", (float("inf"), 0.0), (float("nan"), 1.0)),)),
    ),
)
