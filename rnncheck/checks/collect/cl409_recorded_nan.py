"""The collected data holds NaN, or a state that is not finite.

Checks
    Every recorded entry that the policy writes, and every observation, for NaN; every stored state
    also for infinities. Infinite logits (masked actions) are allowed.

Why it matters
    A NaN state stays NaN until the next reset, and every comparison with it is silent.

Says nothing when
    the spec has no collect stage.

Fix
    Find the first step that holds one (it is named), and look at the observation and the state that
    it came from.

Example
    torch.autograd.set_detect_anomaly(True)
"""

from __future__ import annotations

from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, Observation, Rule
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.recording.recording import Rows
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """All float entries of all batches; the first bad step of the first bad key."""
    compared = 0
    carry = {k for key in evidence.policy.carry for k in (key, next_key(key))}
    for number, rows in enumerate(evidence.recording.batches):
        found: list[tuple[int, int, Key]] = []
        for key in tensor_keys(rows.data):
            value = rows.data.get(key)
            if not value.is_floating_point():
                continue
            compared += 1
            bad = _broken(value, rows, finite=key in carry)
            found += [(step, row, key) for row, step in bad.nonzero().tolist()[:1]]
        if found:
            step, row, key = min(found)
            return Judgement((_observed(key, number, row, step),), compared)
    return Judgement((), compared, counted(compared, "entry", "hold numbers"))


def _broken(value: Tensor, rows: Rows, *, finite: bool) -> Tensor:
    """Steps ``[rows, steps]`` that hold NaN (or, for states, an infinity)."""
    bad = ~value.isfinite() if finite else value.isnan()
    return (bad.flatten(2).any(-1) if bad.ndim > 2 else bad) & rows.valid


def _observed(key: Key, number: int, row: int, step: int) -> Observation:
    return Observation(
        message=f"the collected {dotted(key)} holds NaN or an infinite state",
        key=dotted(key),
        quantity="steps that are not numbers",
        measured=1.0,
        where=Where((number, row), step, first_step=step),
        cause=(
            "the env's observation, the policy's weights or an operation of its own is not finite"
        ),
        fix="look at the first such step; nothing after it in its trajectory can be judged",
        source=Stage.POLICY,
    )


RULE = Rule(
    code="CL409",
    name="recorded-nan",
    holds="what was recorded is finite",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
