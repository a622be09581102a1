"""A change in one segment changes another's per-element loss, target or gradient.

Checks
    The observations of every other segment of the training batch are changed. For the segments that
    were not touched every per-step entry that the loss writes, its terms before reduction, the next
    values and targets that it asks of its value estimator must stay the same to the last bit, and
    so must the gradient of the total loss at their observations (up to rounding). What couples
    backwards in time in the memoryless twin (every step marked as a start) is the nature of the
    loss and is not blamed.

Why it matters
    DQNLoss and every loss that evaluates the next state through ``step_mdp`` call the target
    network on a next tensordict whose ``is_init`` is false everywhere: with slices laid end to end
    the target of one slice depends on the slice before it.

Says nothing when
    the batch itself joins steps without marks (RP501, RP502, RP506), or the policy leaks already
    (BD301).

Fix
    Give the next state the same cuts as the root:
    ``batch["next", "is_init"] = batch["is_init"].clone()`` between ``sample()`` and the loss (the
    spec's ``batch`` factory). A replay transform is too early: it runs before SliceSampler's marks
    are written.

Example
    def make_batch(data, **kw): data["next", "is_init"] = data["is_init"].clone(); return data
"""

from __future__ import annotations

from rnncheck.checks.evidence.batch_isolation import (
    Leak,
    segments_of,
)
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    each_sample,
    loss_of,
)
from rnncheck.checks.evidence.loss_isolation import loss_leaks, policy_leaks
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.evidence.unmarked_joins import crosses
from rnncheck.checks.rule import CouldNotLook, Deferred, Judgement, NotApplicable, Observation, Rule
from rnncheck.results.model import Severity, Stage, Where

ORDER = ("forward", "next value", "target")  # the earliest part that leaks names the finding


def run(evidence: Evidence) -> Judgement:
    """Per-element quantities, then the gradient."""
    loss_of(evidence)
    if crosses(evidence):
        raise Deferred("the batch joins steps without a mark", "RP501", "RP502", "RP506")
    compared, alive = 0, False
    for number, sample in each_sample(evidence):
        if int(segments_of(sample).max()) < 1:
            continue
        if policy_leaks(evidence, sample):
            raise Deferred("the policy itself lets the batch's segments mix", "BD301", "BD305")
        found, lively = loss_leaks(evidence, sample)
        compared += int(sample.valid.sum())
        alive = alive or lively
        if found:
            return Judgement((_observed(sample, number, found),), compared)
    if not compared:
        raise NotApplicable("every row of the training batches is a single segment")
    if not alive:
        raise CouldNotLook("no change of the observations changes the loss")
    return Judgement((), compared, f"{compared} steps of the loss are isolated")


def _observed(sample: Sample, number: int, found: list[Leak]) -> Observation:
    first = min(found, key=lambda leak: _rank(leak.name))
    d = first.difference
    names = ", ".join(leak.name for leak in found)
    through_next = any(leak.name in ("next value", "target") for leak in found)
    return Observation(
        message=(
            f"a change in one segment changes the {first.name} of {first.count} steps of others"
        ),
        key=first.name,
        quantity=f"change of the {first.name} of segments that were not touched",
        measured=d.worst,
        on=f"training batch {number}, {int(segments_of(sample).max()) + 1} segments in a row",
        bound_formula="isolation is bitwise, for what is isolated in the memoryless twin",
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause=(
            "the loss evaluates the next state over the whole batch with is_init false everywhere"
            " (step_mdp)"
            if through_next
            else "a recurrent pass inside the loss does not see the batch's start flags"
        ),
        fix=(
            'set batch["next", "is_init"] = batch["is_init"].clone() between sample() and the loss'
            " (a batch factory; replay transforms run before the slices are marked), so that the"
            " next state is cut where the root is"
        ),
        details={"parts that leak": names},
    )


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


RULE = Rule(
    code="LS701",
    name="loss-crosses-boundary",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
