"""A change in one segment changes another's value, target or advantage.

Checks
    The observations of every other segment of the batches that the estimator gets are changed.
    Values, targets and advantages of the segments in between must stay the same up to the rounding
    of a sum over the row, unless the memoryless twin (every step marked as a start) couples them as
    well.

Why it matters
    An advantage that depends on another episode is noise with a sign.

Says nothing when
    every row is one segment, the policy or critic leak by themselves (BD301), or the estimator
    raises (VL605).

Fix
    Use TorchRL's estimators under ``set_recurrent_mode(True)``, and pass done flags and ``is_init``
    through.

Example
    with set_recurrent_mode(True): gae(batch)
"""

from __future__ import annotations

from rnncheck.checks.evidence.batch_isolation import (
    Leak,
    segments_of,
)
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.checks.value.estimates import batches, estimator_of
from rnncheck.checks.value.estimator_isolation import estimator_leaks
from rnncheck.numerics.difference import Difference
from rnncheck.pipeline.compat import installed, joins_rows
from rnncheck.results.model import Severity, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """Every batch of the estimator."""
    estimator_of(evidence)
    compared, alive = 0, False
    for number, sample in enumerate(batches(evidence)):
        if int(segments_of(sample).max()) < 1:
            continue
        found, lively = estimator_leaks(evidence, sample)
        compared += int(sample.valid.sum())
        alive = alive or lively
        if found:
            return Judgement((_observed(evidence, sample, number, found),), compared)
    if not compared:
        raise NotApplicable("every row of the estimator's batches is a single segment")
    if not alive:
        raise CouldNotLook("no change of the observations changes the estimates")
    return Judgement((), compared, f"{compared} steps are isolated")


def _observed(evidence: Evidence, sample: Sample, number: int, found: list[Leak]) -> Observation:
    first = min(found, key=lambda leak: ("value" not in leak.name, leak.name.count(".")))
    d = first.difference
    cause, fix = _blame(evidence, d)
    return Observation(
        message=(
            f"a change in one segment changes the {first.name} of {first.count} steps of others"
        ),
        key=first.name,
        quantity=f"change of {first.name} of segments that were not touched",
        measured=d.worst,
        on=f"batch {number}, {int(segments_of(sample).max()) + 1} segments in a row",
        bound_formula=(
            "none beyond 1e-5 of the largest entry, for what is isolated in the memoryless twin"
        ),
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause=cause,
        fix=fix,
        details={"what changes": ", ".join(leak.name for leak in found)},
    )


def _blame(evidence: Evidence, d: Difference) -> tuple[str, str]:
    """Cause and fix: TorchRL's own where its estimator joins the rows, else the user's."""
    if d.row and d.first_step == 0 and joins_rows(evidence.pipeline.estimator):
        return (
            (
                f"with shifted=True torchrl {installed().public} joins the rows, and a row that"
                " starts in mid-episode continues the row before it"
            ),
            (
                "give the estimator deactivate_vmap=True instead of shifted=True, or install"
                " torchrl 0.13 or newer"
            ),
        )
    return (
        "the next value runs on over a start, or the sum of rewards over an end",
        (
            "run the estimator in recurrent mode on a batch whose starts are marked and whose ends"
            " are done"
        ),
    )


RULE = Rule(
    code="VL601",
    name="target-crosses-boundary",
    severity=Severity.ERROR,
    stage=Stage.ADVANTAGE,
    run=run,
    needs=(Stage.POLICY, Stage.ADVANTAGE),
)
