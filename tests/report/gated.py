"""Made-up gates: items of every ruling and part, and a failure that is accepted."""

from __future__ import annotations

from dataclasses import replace

from rnncheck.results.cells import cell_to_json
from rnncheck.results.gate import GateItem, Part, Ruling
from rnncheck.results.model import CheckResult, Outcome, Run
from rnncheck.results.verdict import judge, judge_gate
from tests.report.canned import DISAGREES, HEALTHY, HOSTILE, SPEC, check
from tests.report.swept import PAD, SCAN

WITHIN = GateItem(
    Part.BUDGET, "speedup of scan-compiled over pad, train, 32 x 64", Ruling.PASSED,
    value=1.872, low=1.841, high=1.903, limit=1.5, kind="min", unit="x",
    path=SPEC, line=31, column=7,
)  # fmt: skip
OVER = GateItem(
    Part.BUDGET, "peak memory of own, train, 32 x 64", Ruling.SLOWER,
    "the least that was seen is over the budget",
    value=412.25, low=411.0, high=413.5, limit=400.0, kind="max", unit="MiB",
    path=SPEC, line=33, column=7,
)  # fmt: skip
NEAR = GateItem(
    Part.BUDGET, "train_ms of own, 32 x 64", Ruling.UNCLEAR,
    "the interval holds the budget", value=40.0001, low=39.2, high=40.9, limit=40.0, kind="max",
    unit="ms", path=SPEC, line=32, column=7,
)  # fmt: skip
GONE = GateItem(
    Part.BASELINE, "LS701 loss-crosses-boundary", Ruling.FAILED,
    "it passed in the baseline and did not run here", path=SPEC,
)  # fmt: skip
ELSEWHERE = GateItem(
    Part.BASELINE, "time of own, train, 32 x 64", Ruling.INCOMPARABLE,
    "another machine: cpu A CPU, was B CPU",
)  # fmt: skip
SLOWER = GateItem(
    Part.AGAINST, "own, train, 32 x 64", Ruling.SLOWER, "clear after 4 pairs",
    value=1.052, low=1.041, high=1.063, limit=1.03, kind="max", unit="x",
    ratios=(1.05, 1.048, 1.06, 1.05), path=SPEC, line=28, column=3,
)  # fmt: skip
UNUSED = GateItem(
    Part.ACCEPTANCE, "EQ201 until 2099-12-31", Ruling.NOTED, "nothing was found that it accepts",
    path=SPEC, line=25, column=5,
)  # fmt: skip
STRANGE = GateItem(
    Part.AGAINST, HOSTILE, Ruling.FAILED, HOSTILE, float("nan"), float("inf"), 1.0, 2.0, "max",
    HOSTILE, (float("nan"),), HOSTILE, 3, 1,
)  # fmt: skip
KNOWN = replace(
    check("EQ201", "modes-disagree", Outcome.FAILED, DISAGREES),
    accepted="known since the last release (until 2099-12-31)",
)


def gate(*items: GateItem, checks: tuple[CheckResult, ...] = (), strict: bool = False) -> Run:
    """A gate whose checks are healthy but for ``checks``."""
    found = (*HEALTHY.checks, *checks)
    verdict, code = judge_gate(judge(found, strict=strict), items, strict=strict)
    return replace(
        HEALTHY,
        command="gate",
        checks=found,
        verdict=verdict,
        exit_code=code,
        gate=items,
        cells=tuple(map(cell_to_json, (PAD, SCAN))),
        strict=strict,
    )


GATED = gate(WITHIN, OVER, NEAR, GONE, ELSEWHERE, SLOWER, UNUSED, checks=(KNOWN,))
PASSED = gate(WITHIN, NEAR, ELSEWHERE, UNUSED)
STRICT = gate(WITHIN, NEAR, ELSEWHERE, UNUSED, strict=True)
SLOW = gate(WITHIN, SLOWER)
HEAVY = gate(WITHIN, OVER)
ACCEPTED = gate(UNUSED, checks=(KNOWN,))
HOSTILE_GATE = gate(STRANGE, checks=(replace(KNOWN, accepted=HOSTILE),))
GATES = {
    "gated": GATED,
    "passed": PASSED,
    "strict": STRICT,
    "slow": SLOW,
    "heavy": HEAVY,
    "accepted": ACCEPTED,
    "hostile": HOSTILE_GATE,
}
