"""The gradient of one segment's output with respect to another segment's input is not exactly zero.

Checks
    A recurrent pass over episode heads, then one backward pass from every other segment's outputs
    (weighted by random numbers, so that nothing cancels). At the inputs of the segments in between
    the gradient must be exactly zero, at those of the segments themselves it must not. Tokens and
    bytes have no gradient: where they are read, the gradients of the parameters are held against
    those with other tokens in the segments in between, which must not move them.

Why it matters
    A gradient that crosses a reset pushes the policy to use what it cannot see, even where the
    values look right (a mask applied with the wrong arithmetic, a padded batch that shares
    statistics).

Says nothing when
    the module has no recurrent mode, its outputs have no gradient at all, or what carries the state
    has neither a gradient nor parameters.

Fix
    Select the state at a reset with ``torch.where`` (or by starting a new sequence), so that no
    path leads back.

Example
    h = torch.where(is_init, stored_h, h)
"""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.boundary.parameter_gradients import MovedGradient, moved_from_outside
from rnncheck.checks.evidence.comparison import OutputChange
from rnncheck.checks.evidence.constructed_batches import constructed, runs_in_double
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.experiment import ROUNDING, alternating
from rnncheck.checks.evidence.observations import change_observed, sizes
from rnncheck.checks.evidence.random_mix import mixed
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected, as_rows, needs_recurrence
from rnncheck.checks.evidence.resets_seen import needs_a_reset
from rnncheck.checks.evidence.trained_memory import FIXED, has_fixed_memory
from rnncheck.checks.evidence.unrun import unrun
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics.difference import features, locate
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import RunSettings, cast, run_recurrent
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

_CAUSE = (
    "a path leads from one segment's outputs back to another segment's inputs in the recurrent pass"
)
_FIX = "cut the running state where is_init is true with torch.where, for every carry key and layer"


def run(evidence: Evidence) -> Judgement:
    """One backward pass per parity, for policy and critic."""
    findings: list[Observation] = []
    compared = 0
    for subject in evidence.subjects:
        needs_recurrence(evidence, subject)
        needs_a_reset(evidence, subject)
        made = constructed(evidence, subject)
        finding = _judged(evidence, subject, made)
        compared += int(made.starts.sum())
        findings += [finding] if finding else []
    return Judgement(
        tuple(findings), compared, counted(compared, "segment", "are exactly separate")
    )


def _judged(evidence: Evidence, subject: Subject, made: Constructed) -> Observation | None:
    """At the inputs that have gradients, then at the parameters where there are others."""
    open_, looks = list[NotApplicable](), (_judge, _through_parameters)
    for look in looks:
        try:
            if (finding := look(evidence, subject, made)) is not None:
                return finding
        except NotApplicable as why:
            open_.append(why)
    if len(open_) == len(looks):
        raise open_[-1]
    return None


def _through_parameters(
    evidence: Evidence, subject: Subject, made: Constructed
) -> Observation | None:
    found = moved_from_outside(evidence, subject)
    return None if found is None else _moved_observed(subject, made, found)


def _moved_observed(subject: Subject, made: Constructed, found: MovedGradient) -> Observation:
    return Observation(
        stage=subject.stage,
        message="the gradient of one segment's outputs moves with the tokens of another",
        key=found.name,
        quantity=f"change of the gradient of {found.name}, relative to the largest gradient",
        measured=found.size,
        on=sizes(made),
        bound=found.bound,
        bound_formula="relative to the largest gradient",
        where=Where(batch=(found.row,)),
        cause=_CAUSE,
        fix=_FIX,
    )


def _judge(evidence: Evidence, subject: Subject, made: Constructed) -> Observation | None:
    """The finding of one subject."""
    alive = False
    for mask, others in alternating(made):
        for key, grad in _input_gradients(evidence, subject, made, mask).items():
            wide = mask.reshape(*mask.shape, *([1] * (grad.ndim - 2)))
            alive = alive or bool((grad * wide != 0).any())
            foreign = grad.abs().nan_to_num(nan=torch.inf) * _wide(others, grad)
            difference = locate(foreign, 0.0, grad)
            if difference is not None and not vanishes(
                evidence, subject, made, (mask, others), key
            ):
                change = OutputChange(key, features(foreign).any(-1), difference)
                return change_observed(
                    subject,
                    made,
                    change,
                    message="the gradient of one segment's outputs reaches the inputs of another",
                    cause=_CAUSE,
                    fix=_FIX,
                )
    if not alive and has_fixed_memory(subject):
        raise NotApplicable(FIXED)
    if not alive:
        raise CouldNotLook(f"the {subject.stage}'s outputs have no gradient at its inputs")
    return None


def vanishes(
    evidence: Evidence,
    subject: Subject,
    made: Constructed,
    masks: tuple[Tensor, Tensor],
    key: Key,
) -> bool:
    """Whether the foreign gradient is rounding: float64 leaves nothing of it."""
    if not runs_in_double(evidence, subject, made.inputs[:1]):
        return False
    grad = _input_gradients(evidence, subject, made, masks[0], torch.float64)[key]
    foreign = grad.abs() * _wide(masks[1], grad)
    rounding = bool(foreign.max() <= ROUNDING * grad.abs().max())
    if rounding:
        evidence.rounded = max(evidence.rounded, float(foreign.max()))
    return rounding


def _wide(mask: Tensor, value: Tensor) -> Tensor:
    return mask.reshape(*mask.shape, *([1] * (value.ndim - 2)))


def _input_gradients(
    evidence: Evidence,
    subject: Subject,
    made: Constructed,
    mask: Tensor,
    dtype: torch.dtype | None = None,
) -> dict[Key, Tensor]:
    """Gradients at the float inputs of a random mix of the outputs at ``mask``
    ``[rows, steps]``."""
    batch = cast(made.batch(subject), dtype)
    keys = [k for k in subject.changeable_inputs(made.inputs) if batch.get(k).is_floating_point()]
    if not keys:
        raise NotApplicable(f"the {subject.stage} reads no floats: no gradient is there")
    leaves = {key: batch.get(key).clone().requires_grad_() for key in keys}
    batch.update(leaves)
    try:
        out = run_recurrent(
            subject,
            as_collected(subject, batch),
            settings=RunSettings(grad=True, dtype=dtype),
        )
    except Exception as error:
        raise unrun(subject, error) from error
    rows = as_rows(out, batch.shape)
    total = mixed(rows.exclude("next"), comparable_outputs(evidence, subject, rows), mask)
    if total is None:
        raise CouldNotLook(f"the {subject.stage}'s outputs have no gradient at its inputs")
    grads = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return {key: grad for key, grad in zip(keys, grads, strict=True) if grad is not None}


RULE = Rule(
    code="BD303",
    name="gradient-crosses-reset",
    holds="no gradient crosses a reset",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
