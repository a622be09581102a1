"""A made-up sweep: a group with a fast, an unclear, a wrong and a missing row."""

from __future__ import annotations

from dataclasses import replace

from rnncheck.results.cells import (
    Accuracy,
    Cell,
    CellResult,
    Memory,
    Phase,
    Ratio,
    Samples,
    Status,
    Timing,
    cell_to_json,
)
from rnncheck.results.claims import Answer, Claim
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.model import Verdict
from rnncheck.results.recommendation import Recommendation
from rnncheck.results.scaling import Scaling
from rnncheck.results.variant import parse_variant
from tests.report.canned import HEALTHY


def _row(variant: str, seconds: float, speed_up: float | None, error: float) -> CellResult:
    ratio = None if speed_up is None else Ratio("pad", speed_up, speed_up * 0.98, speed_up * 1.02)
    return CellResult(
        Cell(Phase.TRAIN, parse_variant(variant), 32, 64, 0.03),
        Status.OK if error < 1e-5 else Status.WRONG,
        "" if error < 1e-5 else "output error 0.1 in q against float64, allowed 1e-05",
        Samples((1, 2), (seconds, seconds), (seconds, seconds), 4, (1, 1)),
        Timing(seconds, seconds * 0.99, seconds * 1.01, 40, "interval reached", seconds),
        ratio,
        Accuracy(error, 1e-5, error, 1e-4, "q"),
        Memory(12 * 2**20),
        first_call=0.5,
        distrust=("busy machine: other processes used 40% of the CPU",) if speed_up else (),
    )


PAD = _row("pad", 28e-3, None, 1e-7)
SCAN = _row("scan-compiled", 15e-3, 1.87, 2e-7)
AUTO = _row("auto", 28.1e-3, 0.996, 1e-7)
WRONG = _row("scan", 9e-3, 3.1, 0.1)
MISSING = CellResult(
    Cell(Phase.TRAIN, parse_variant("triton"), 32, 64, 0.03), Status.CANNOT, "no CUDA device here"
)
DIED = CellResult(
    Cell(Phase.ACT, parse_variant("pad"), 32, 1, 0.0),
    Status.CRASHED,
    "the process ended with SIGSEGV",
)
SWEEP = replace(
    HEALTHY,
    command="bench",
    checks=(),
    stages=(),
    exit_code=ExitCode.VERIFIED,
    verdict=Verdict.VERIFIED,
    cells=tuple(map(cell_to_json, (PAD, SCAN, AUTO, WRONG, MISSING, DIED))),
    recommendations=(
        Recommendation(
            "training",
            PAD.cell.group,
            "scan-compiled",
            SCAN.ratio,
            {"recurrent_backend": "scan"},
            "default",
            ("at train, 32 x 64, 0 resets: pad",),
        ),
    ),
    scalings=(
        Scaling(
            "train", "pad", "steps", ((16.0, 0.01), (32.0, 0.02), (64.0, 0.04)), 1.0, 0.9, 1.1, 0.0
        ),
    ),
    claims=(Claim("scan avoids padding's memory", Answer.FAILS, "scan peaks at 1.3 times", ()),),
)
