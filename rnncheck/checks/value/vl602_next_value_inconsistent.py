"""V_next[t] differs from V[t+1] inside a segment.

Checks
    Where the estimator writes both, the next value of a step is held against the value of the step
    that follows it in the same trajectory.

Why it matters
    The two are one number. If they differ, one of the two passes had another state: the estimator
    ran outside recurrent mode, or the next pass starts from zero.

Says nothing when
    the estimator writes no next values, or no step is followed by another.

Fix
    Run the estimator under ``set_recurrent_mode(True)``; with the pad backend use ``shifted=True``.

Example
    GAE(gamma=0.99, lmbda=0.95, value_network=critic, shifted=True)
"""

from __future__ import annotations

import torch

from rnncheck.checks.evidence.estimator_calls import batches, estimator_of, value_key
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.checks.value.estimates import dropped, ended, per_step
from rnncheck.numerics.difference import Difference, gap, locate
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Severity, Stage, Where

_LIMIT = 1e-4  # relative to the largest value: two float32 passes over the same history


def run(evidence: Evidence) -> Judgement:
    """Every batch of the estimator."""
    estimator_of(evidence)
    compared = 0
    for number, sample in enumerate(batches(evidence)):
        found, count, scale = inconsistent(evidence, sample)
        compared += count
        if found is not None:
            return Judgement((_observed(evidence, number, found, scale),), compared)
    if not compared:
        raise NotApplicable("the estimator writes no next value beside a value")
    return Judgement((), compared, f"{compared} next values are the next step's values")


def inconsistent(evidence: Evidence, sample: Sample) -> tuple[Difference | None, int, float]:
    """The worst difference inside segments, how many were compared, and the values' scale."""
    out = per_step(evidence, sample, sample.td)
    key = value_key(evidence)
    value, following = out.get(dotted(key)), out.get(dotted(next_key(key)))
    if value is None or following is None:
        return None, 0, 1.0
    inside = (sample.follows & ~sample.marked)[:, 1:] & ~ended(sample, "done")[:, :-1]
    inside &= ~dropped(evidence, sample)[:, 1:]
    scale = max(float(value.abs().max()), 1e-6)
    gaps = gap(following[:, :-1], value[:, 1:])
    wide = inside.reshape(*inside.shape, *([1] * (gaps.ndim - 2)))
    gaps = torch.where(wide, gaps, torch.zeros_like(gaps))
    return locate(gaps, _LIMIT * scale, value), int(inside.sum()), scale


def _observed(evidence: Evidence, number: int, d: Difference, scale: float) -> Observation:
    name = dotted(value_key(evidence))
    return Observation(
        message="the next value of a step is not the value of the step that follows it",
        key=name,
        quantity=f"max abs difference of next.{name} at t and {name} at t+1",
        measured=d.worst,
        on=f"batch {number}",
        bound=_LIMIT * scale,
        bound_formula="1e-4 of the largest value",
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause=(
            "the two passes of the critic had different states: no recurrent mode, or a next pass"
            " from zero"
        ),
        fix="use shifted=True, with the estimator under set_recurrent_mode(True)",
        details={"elements beyond the bound": f"{d.differing} of {d.elements}"},
    )


RULE = Rule(
    code="VL602",
    name="next-value-inconsistent",
    holds="the next value is the value of the next step",
    severity=Severity.ERROR,
    stage=Stage.ADVANTAGE,
    run=run,
    needs=(Stage.POLICY, Stage.ADVANTAGE),
    replays=True,
)
