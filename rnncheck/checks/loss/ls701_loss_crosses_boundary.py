"""A change in one segment changes another's per-element loss, target or gradient.

Checks
    The observations, rewards and advantages of every other segment of the training batch are
    changed; each row of a [B, T] batch begins one. For the segments that were not touched every
    per-step entry that the loss writes, its terms before reduction, the next values and targets
    that it asks of its value estimator must stay the same to the last bit. So must the gradient of
    the total loss at their observations, up to rounding; where distances saturate (smooth L1,
    Huber, L1), with squared errors as well. A statistic of the batch (a mean, a deviation, a sum
    over samples) is the nature of the loss and is not blamed. It couples segments
    in both directions in the memoryless twin as well (every step marked as a start), and moves and
    scales all of them alike, or does not ask in which order they stand. What runs from one to the
    next does. Where a loss tells nothing per step and has no gradient at the batch (tokens), the
    outputs of the recurrent modules inside it are held to the same, and so is the gradient of the
    total at what they read. Where no such gradient moves, the change of the total with all segments
    must be the sum of the changes with every other one.

Why it matters
    DQNLoss and every loss that evaluates the next state through ``step_mdp`` call the target
    network on a next tensordict whose ``is_init`` is false everywhere: with slices laid end to end
    the target of one slice depends on the slice before it.

Says nothing when
    the batch itself joins steps without marks (RP501, RP502, RP506), the policy leaks already
    (BD301, BD305), or every training batch is one row with one segment.

Fix
    Give the next state the same cuts as the root:
    ``batch["next", "is_init"] = batch["is_init"].clone()`` between ``sample()`` and the loss (the
    spec's ``batch`` factory). A replay transform is too early: it runs before SliceSampler's marks
    are written. Cut sums over steps at every end and at every row's end.

Example
    def make_batch(data, **kw): data["next", "is_init"] = data["is_init"].clone(); return data
"""

from __future__ import annotations

from rnncheck.checks.evidence.batch_isolation import Leak, layout, neighbours
from rnncheck.checks.evidence.coupling import ROWS
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.handed_states import OUTPUT
from rnncheck.checks.evidence.left_out import loss_leaves_out, needs_sequence
from rnncheck.checks.evidence.loss_calls import (
    each_sample,
    loss_of,
)
from rnncheck.checks.evidence.loss_isolation import (
    loss_leaks,
    policy_leaks,
    reaches_back_alone,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.evidence.unmarked_joins import crosses
from rnncheck.checks.rule import CouldNotLook, Deferred, Judgement, NotApplicable, Observation, Rule
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

ORDER = ("forward", "next value", "target")  # the earliest part that leaks names the finding


def run(evidence: Evidence) -> Judgement:
    """Per-element quantities, then the gradient."""
    loss_of(evidence)
    sequence = not loss_leaves_out(evidence)
    if sequence and crosses(evidence):
        raise Deferred("the batch joins steps without a mark", "RP501", "RP502", "RP506")
    compared, alive = 0, False
    for number, sample in each_sample(evidence):
        if not neighbours(sample):
            continue
        if sample.partly is not None and bool(sample.partly.any()):
            raise CouldNotLook(
                "agents of one row begin one by one: no step begins an episode of all of them"
            )
        if sequence and policy_leaks(evidence, sample):
            raise Deferred("the policy itself lets the batch's segments mix", "BD301", "BD305")
        found, lively = loss_leaks(evidence, sample)
        compared += int(sample.valid.sum())
        alive = alive or lively
        if found:
            return Judgement((_observed(evidence, sample, number, found),), compared)
    if not compared:
        raise NotApplicable("no training batch has two segments")
    if not alive:
        needs_sequence(evidence)
        raise CouldNotLook(
            "no change of the observations or the rewards changes an entry or a gradient of the"
            " loss, and its total does not part into what each segment gives"
        )
    return Judgement((), compared, f"{compared} steps of the loss are isolated")


def _observed(evidence: Evidence, sample: Sample, number: int, found: list[Leak]) -> Observation:
    first = min(found, key=lambda leak: _rank(leak.name))
    d = first.difference
    names = ", ".join(leak.name for leak in found)
    cause, fix = _blame(first, found, back=reaches_back_alone(evidence, sample))
    return Observation(
        message=(
            f"a change in one segment changes the {first.name} of"
            f" {counted(first.count, 'step of others')}"
        ),
        key=first.name,
        quantity=f"change of the {first.name} of segments that were not touched",
        measured=d.worst,
        on=f"training batch {number}, {layout(sample)}",
        bound_formula="isolation is bitwise, for what is no statistic of the batch",
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause=cause,
        fix=fix,
        details={"parts that leak": names, "runs on between": first.between},
    )


def _blame(first: Leak, found: list[Leak], *, back: bool) -> tuple[str, str]:
    """Cause and fix, by what runs on between what."""
    if first.paid:
        return (
            "a sum over steps inside the loss (a return, an n-step target) goes on from one of the"
            f" {first.between} to the next",
            (
                'stop it at the end of every row and where batch["next", "done"] is true:'
                " total = reward[t] + gamma * (~done[t]).float() * total"
            ),
        )
    if first.between == ROWS:
        return (
            "the loss joins the rows of the batch: a recurrent pass, a shift by one step or a sum"
            " over steps runs on from the end of a row to the next row",
            "keep the batch's shape [rows, steps] up to the last reduction, or mark every row's"
            ' first step in batch["is_init"] before it is flattened',
        )
    if first.name.startswith(OUTPUT):
        return (
            "a layer that the loss calls step by step goes on with its state over a start",
            'clear the state where batch["is_init"] is true, ahead of each call:'
            " h = torch.where(is_init[:, t], torch.zeros_like(h), h)",
        )
    if back:
        return (
            "something of the step behind an end, which is another episode's, is taken at the end:"
            " a target's next value, or an entry that was shifted by a step",
            "leave a next value out where an episode ends: target = reward + gamma *"
            ' (~batch["next", "terminated"]).float() * next_value, and where a time limit cut it'
            ' take that of batch["next"]; leave entries at their own steps (no roll, no [:, 1:])',
        )
    fix = (
        'set batch["next", "is_init"] = batch["is_init"].clone() between sample() and the loss (a'
        " batch factory; replay transforms run before the slices are marked), so that the next"
        " state is cut where the root is, and keep the collected ('next', state) as rnncheck rule"
        " VL604 shows"
    )
    if any(leak.name in ("next value", "target") for leak in found):
        return (
            "the loss evaluates the next state over the whole batch with is_init false everywhere"
            " (step_mdp)",
            fix,
        )
    return "a recurrent pass inside the loss does not see the batch's start flags", fix


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


RULE = Rule(
    code="LS701",
    name="loss-crosses-boundary",
    holds="no trajectory reaches another's loss",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
    dear=True,
)
