"""Neighbours inside a segment are not neighbours in time.

Checks
    Every step of the training batches is traced back to the step that was collected. Where hardly
    any two neighbours of a row follow each other in time (single steps were drawn, the order was
    reversed, steps were left out), the batch is no sequence. A loss of your own may change the
    order itself. Which step each position of a recurrent pass inside it shows is told by changing
    what is observed; along the dimension that the module remembers, most must follow in time.

Why it matters
    A recurrent module takes the last batch dimension for time. Shuffled steps give it a history
    made of noise; PPO's first ratio is then not 1.

Says nothing when
    the policy has no recurrent mode, or every step carries a start flag. Nor of a loss in which
    nothing that carries state runs, beside another one that trains what does.

Fix
    Draw slices or whole rows: SliceSampler, or a storage with ``ndim=2`` whose rows are
    trajectories. Where whole rows are the items of a storage with one dimension,
    ``flatten: none`` in the spec's ``replay`` says so.

Example
    sampler=SliceSampler(slice_len=16, strict_length=False)     # not SamplerWithoutReplacement()
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.left_out import needs_sequence
from rnncheck.checks.evidence.order_of_passes import Disorder, disordered
from rnncheck.checks.evidence.recurrent_pass import steps_only
from rnncheck.checks.evidence.unmarked_joins import Joins, joins
from rnncheck.checks.rule import (
    CouldNotLook,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
)
from rnncheck.results.model import Severity, Stage, Where

WHOLE_ROWS = (
    "where your loop stores whole rows, `extend(data)`, say `flatten: none` in the spec's replay"
)


def run(evidence: Evidence) -> Judgement:
    """Shuffled training batches."""
    if not evidence.written(Stage.REPLAY, Stage.LOSS):
        raise NotApplicable("the spec has no replay stage")
    if evidence.policy.carry and steps_only(evidence, evidence.policy):
        raise NotApplicable("the policy has no recurrent mode")
    needs_sequence(evidence)
    if not evidence.written(Stage.REPLAY):
        inside, asked = _inside(evidence)
        if not asked:
            raise NotApplicable("the spec has no replay stage")
        return Judgement(() if inside is None else (inside,), asked, f"{asked} steps traced")
    found = joins(evidence)
    known = sum(int(item.sample.known.sum()) for item in found)
    if not known:
        raise CouldNotLook(
            "no step of the training batches could be traced back to the collected data"
        )
    bad = [item for item in found if bool(item.shuffled.any())]
    if bad:
        return Judgement((_observed(bad[0], parted=parted_by_auto(evidence, bad[0])),), known)
    inside, _ = _inside(evidence)
    return Judgement(() if inside is None else (inside,), known, f"{known} steps traced")


def _inside(evidence: Evidence) -> tuple[Observation | None, int]:
    """What the loss does with the batch before it runs a module over it, and how many steps of its
    passes tell."""
    if not evidence.written(Stage.LOSS):
        return None, 0
    try:
        found, asked = disordered(evidence)
    except Unanswered:  # a loss that cannot run is LS706's
        return None, 0
    return None if found is None else _reordered(found), asked


def _reordered(found: Disorder) -> Observation:
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"{found.count} of {found.of} steps that a recurrent module runs over inside the loss"
            " do not follow their neighbour in time"
        ),
        key="order inside the loss",
        quantity="steps that follow no neighbour and are not marked",
        measured=float(found.count),
        on=f"training batch {found.number}",
        bound_formula="neighbours in a pass are neighbours in time",
        where=Where((found.number, found.row), found.step, first_step=found.step),
        cause="the loss shuffles, reverses or thins out its batch along time",
        fix="shuffle whole rows or slices alone, and keep the steps of each in order",
    )


def parted_by_auto(evidence: Evidence, item: Joins) -> bool:
    """Rows were collected, and ``flatten: auto`` stored their steps one by one."""
    section = evidence.pipeline.spec.replay
    if section is None or section.flatten != "auto" or item.sample.td.batch_dims != 1:
        return False
    return bool(evidence.pipeline.batches[0].batch_dims > 1)


def _observed(item: Joins, *, parted: bool) -> Observation:
    count, of = int(item.shuffled.sum()), int(item.sample.known.sum())
    return Observation(
        message=f"{count} of {of} steps of a training batch do not follow their neighbour in time",
        key="is_init",
        quantity="steps that follow no neighbour and are not marked",
        measured=float(count),
        on=f"training batch {item.number}, {tuple(item.sample.td.shape)}",
        bound_formula="neighbours in a segment are neighbours in time",
        where=item.where(item.shuffled),
        cause=(
            "the sampler draws single steps, or the batch was shuffled, reversed or thinned out"
            " along time"
        ),
        fix="draw slices (SliceSampler) or whole rows, and keep their order"
        + (f"; {WHOLE_ROWS}" if parted else ""),
    )


RULE = Rule(
    code="RP502",
    name="steps-not-consecutive",
    holds="neighbours in a training batch are neighbours in time",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY,),
)
