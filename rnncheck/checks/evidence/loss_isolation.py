"""Which parts of a loss, and of the policy inside it, change with what another segment holds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import (
    GRADIENT,
    Elements,
    Leak,
    changes_there,
    changing,
    input_gradients,
    leaks,
    observed,
    paid,
    parted,
    segments_of,
)
from rnncheck.checks.evidence.coupling import SEGMENTS, SUM_ROUNDING, Coupled, real_leaks
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.handed_states import in_order, layer_outputs
from rnncheck.checks.evidence.loss_calls import changed_batch, copied, loss_of, run_loss
from rnncheck.checks.evidence.recurrent_pass import read_by_pass, row_states, steps_only
from rnncheck.checks.evidence.still_statistics import beyond_statistics
from rnncheck.checks.evidence.traced_steps import inner_gradients, inner_outputs
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.pipeline.instruments.distances import SquaredErrors
from rnncheck.pipeline.instruments.shuffles import nothing_shuffled
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.pipeline.subject.subject import next_key

_SEEDS = (1, 2)  # of few rows, two may draw the same minibatches


def policy_leaks(evidence: Evidence, sample: Sample) -> bool:
    """Whether the policy's own recurrent pass mixes the segments of this batch."""
    return evidence.once("leaks of the policy", lambda: _policy_leaks(evidence, sample), sample)


def _policy_leaks(evidence: Evidence, sample: Sample) -> bool:
    subject = evidence.policy

    def outputs(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        out = run_recurrent(subject, read_by_pass(subject, td)).reshape(sample.rows.shape)
        return {".".join(k): out.get(k) for k in tensor_keys(out) if k in written}

    try:
        if steps_only(evidence, subject):  # its loss alone goes through sequences
            return False
        written = set(subject.writes) - row_states(evidence, subject)
        return bool(leaks(sample, observed(evidence, sample), outputs)[0])
    except Exception:  # a policy without a recurrent mode is judged through its loss alone
        return False


def loss_leaks(evidence: Evidence, sample: Sample) -> tuple[list[Leak], bool]:
    """Leaks of the loss that are no statistics of the batch, and whether any change changes it."""
    return evidence.once("leaks of the loss", lambda: _loss_leaks(evidence, sample), sample)


def _loss_leaks(evidence: Evidence, sample: Sample) -> tuple[list[Leak], bool]:
    if not repeatable(evidence, sample):
        with nothing_shuffled():
            if repeatable(evidence, sample):
                return _leaks_of(evidence, sample, shuffled=True)
    return _leaks_of(evidence, sample)


def _leaks_of(
    evidence: Evidence, sample: Sample, *, shuffled: bool = False
) -> tuple[list[Leak], bool]:
    loss = copied(loss_of(evidence))

    def elements(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        found = run_loss(evidence, sample, td, loss=copied(loss)).elements
        return {name: value for name, value in found.items() if not _passed_on(name, sample)}

    real, alive = list[Leak](), False
    for made, tolerance in ((elements, 0.0), (loss_gradients(evidence), GRADIENT)):
        keys = changing(evidence, sample, made)
        found, lively = leaks(sample, keys, made, tolerance=tolerance)
        if found:
            coupled = replace(_coupled(evidence, sample, keys, made), shuffled=shuffled)
            real += beyond_statistics(evidence, coupled, found, tolerance)
        alive = alive or lively
    if not alive and not real:
        return _leaks_inside(evidence, sample)
    real = real or _leaks_of_squares(evidence, sample) or _leaks_of_layers(evidence, sample)
    return real, alive


def _leaks_of_layers(evidence: Evidence, sample: Sample) -> list[Leak]:
    """What layers give that the loss calls step by step: no statistic of the batch moves that, and
    no twin without memory is needed to tell."""

    names = in_order(evidence, sample)

    def given(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        found = layer_outputs(evidence, sample, td)
        return {name: value for name, value in found.items() if name in names}

    if not names:
        return []
    root = [key for key in observed(evidence, sample) if key[0] != "next"]
    found, _ = leaks(sample, root, given)
    return [replace(one, between=SEGMENTS) for one in found]


def _leaks_of_squares(evidence: Evidence, sample: Sample) -> list[Leak]:
    """Leaks of the gradient with squared errors, where the loss has distances that saturate: far
    from a target their slope does not tell what the target is."""
    with SquaredErrors() as errors:
        run_loss(evidence, sample, loss=copied(loss_of(evidence)), per_element=False)
    if not errors.used:
        return []
    gradients = loss_gradients(evidence)

    def made(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        with SquaredErrors():
            return gradients(sample, td)

    keys = changing(evidence, sample, made)
    found, _ = leaks(sample, keys, made, tolerance=GRADIENT)
    if not found:
        return []
    return real_leaks(evidence, _coupled(evidence, sample, keys, made), found, GRADIENT)


def _leaks_inside(evidence: Evidence, sample: Sample) -> tuple[list[Leak], bool]:
    """The same where the loss tells nothing per step and has no gradient at the batch: by what its
    recurrent modules give, by the gradient of the total at what they read, and by what the parts
    of the batch have to do with each other in the total."""

    def inside(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        return inner_outputs(evidence, sample, td)

    def gradients(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        return inner_gradients(evidence, sample, td)

    keys = observed(evidence, sample)
    for made, tolerance in ((inside, 0.0), (gradients, GRADIENT)):
        found, lively = leaks(sample, keys, made, tolerance=tolerance)
        if found:
            coupled = _coupled(evidence, sample, keys, made)
            return real_leaks(evidence, coupled, found, tolerance), lively
        if made is inside and not lively:
            return [], False
    return [], lively or _apart(evidence, sample)


def coupled_by_statistics(evidence: Evidence, sample: Sample) -> bool:
    """Whether other segments move a segment's gradient, by what is no leak: a mean, a deviation."""
    made = loss_gradients(evidence)
    found, _ = leaks(sample, changing(evidence, sample, made), made, tolerance=GRADIENT)
    return bool(found) and not loss_leaks(evidence, sample)[0]


def reaches_back_alone(evidence: Evidence, sample: Sample) -> bool:
    """Whether segments change those ahead of them in their rows, and none behind them: a memory
    does not do that, but a target that takes what stands behind an end."""
    made, numbers = loss_gradients(evidence), segments_of(sample)
    first, last = numbers == 0, numbers == numbers.amax(1, keepdim=True)
    ahead, behind = ~last & sample.valid, ~first & sample.valid
    if not bool(ahead.any()):
        return False
    with suppress(Unanswered):  # it only says more of what was found
        keys = changing(evidence, sample, made)
        back = changes_there(sample, keys, made, last & behind, ahead)
        return back and not changes_there(sample, keys, made, first & ahead, behind)
    return False


def _apart(evidence: Evidence, sample: Sample) -> bool:
    """The total moves with every other segment as if the others had not moved: it is a sum in which
    each has a part of its own."""

    def total(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        return {"": run_loss(evidence, sample, td, per_element=False).total.detach().double()}

    def changed(touched: Tensor) -> float:
        return float(total(sample, changed_batch(sample, touched, keys))[""])

    keys, still = changing(evidence, sample, total), float(total(sample, sample.td)[""])
    halves = parted(sample)
    for one, other in zip(halves[::2], halves[1::2], strict=True):
        sums = [still, changed(one), changed(other), changed(one | other)]
        if still in sums[1:3]:
            return False
        if abs(sums[3] - sums[1] - sums[2] + still) > SUM_ROUNDING * max(map(abs, sums)):
            return False
    return True


def loss_gradients(evidence: Evidence) -> Elements:
    """Gradients of the whole loss at what is observed, as per-step entries."""
    loss = copied(loss_of(evidence))

    def gradients(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        return input_gradients(
            evidence, sample, td,
            lambda b: run_loss(evidence, sample, b, loss=copied(loss), per_element=False).total,
        )  # fmt: skip

    return gradients


def _passed_on(name: str, sample: Sample) -> bool:
    """States that a pass leaves in the batch: they are inputs of the next pass, not parts of the
    loss."""
    carry = sample.steps.recording.subject.carry
    return name in {"written " + ".".join(key) for k in carry for key in (k, next_key(k))}


def _coupled(evidence: Evidence, sample: Sample, keys: list[Key], made: Elements) -> Coupled:
    drawn = not repeatable(evidence, sample)
    ordered = not getattr(loss_of(evidence), "in_place", False) and _counts_first(evidence, sample)
    return Coupled(sample, keys, made, drawn, ordered=ordered)


def repeatable(evidence: Evidence, sample: Sample) -> bool:
    """The loss is the same under another seed; on other numbers as well, since with the policy that
    acted every ratio is one, and which minibatch a row is in does not show."""
    if not _same_under_seeds(evidence, sample, sample.td):
        return False
    keys = [*observed(evidence, sample), *paid(evidence, sample)]
    try:
        return _same_under_seeds(evidence, sample, changed_batch(sample, sample.valid, keys))
    except Unanswered:  # a loss that takes certain numbers alone
        return True


def _same_under_seeds(evidence: Evidence, sample: Sample, td: TensorDictBase) -> bool:
    loss = copied(loss_of(evidence))
    first = run_loss(evidence, sample, td, loss=copied(loss), per_element=False).total
    others = (
        run_loss(evidence, sample, td, loss=copied(loss), per_element=False, seed=seed).total
        for seed in _SEEDS
    )
    return all(torch.equal(first, other) for other in others)


def _counts_first(evidence: Evidence, sample: Sample) -> bool:
    """The rows' first steps have a part in the loss: one that leaves them out depends on what lies
    there."""
    first = torch.zeros_like(sample.valid)
    first[:, 0] = True
    changed = changed_batch(sample, first, paid(evidence, sample))
    totals = [
        run_loss(evidence, sample, td, loss=copied(loss_of(evidence)), per_element=False).total
        for td in (sample.td, changed)
    ]
    return not torch.equal(*totals)
