"""Does a change in one segment of a training batch change what a function of the batch gives for
another?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import UNREAD, changed_batch, memoryless_batch
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.numerics.difference import Difference, bits_differ, gap, locate
from rnncheck.pipeline.instruments.memoryless import Memoryless
from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.pipeline.subject.subject import Subject, next_key

GRADIENT = 1e-6  # of the largest gradient: rounding of a sum over the batch
AT_INPUT = "gradient at "  # ahead of the name of what is observed


@dataclass(frozen=True)
class Leak:
    """One per-step quantity that changed where nothing was changed.

    ``between``: the neighbours that it runs on between. ``paid``: rewards, or what an estimator
    wrote, move it without a change of observations.
    """

    name: str
    difference: Difference
    count: int
    of: int
    between: str = ""
    paid: bool = False


def segments_of(sample: Sample) -> Tensor:
    """Numbers of the segments as the batch means them: begun by a mark or by a step out of time."""
    begins = sample.marked | (sample.known & ~sample.follows)
    return begins.long().cumsum(1) - 1


def through_rows(segments: Tensor) -> Tensor:
    """Numbers that go on from row to row, so that the last segment of a row and the first of the
    next are neighbours: what flattens the rows joins these two."""
    first, last = segments.amin(1, keepdim=True), segments.amax(1, keepdim=True)
    count = last - first + 1
    return segments - first + count.cumsum(0) - count


def observed(evidence: Evidence, sample: Sample) -> list[Key]:
    """What policy and critic observe, at the step and at the next one; of one that declares nothing
    all that it may read. With the features that the memory is fed and that stand in the batch as
    acting made them: a loss may train it on these."""
    subjects = [evidence.policy, *filter(None, [evidence.stepped_critic])]
    found: dict[Key, None] = {}
    for subject in subjects:
        written = set(evidence.policy.writes) if subject is not evidence.policy else set[Key]()
        inputs = subject.inputs_of(sample.rows)
        for key in subject.changeable_inputs(inputs):
            if (not subject.reads or key in subject.reads) and key not in written:
                found[key] = None
                if next_key(key) in tensor_keys(sample.rows):
                    found[next_key(key)] = None
    return list(dict.fromkeys([*found, *_stored_features(evidence.policy, sample)]))


def _stored_features(policy: Subject, sample: Sample) -> list[Key]:
    """What the policy writes and what carries its state reads, beside that state."""
    fed = {key for one in policy.carriers for key in declared(one.module, "in_keys")}
    made = fed & set(policy.writes) - {*policy.carry, *policy.flags}
    there = [key for key in tensor_keys(sample.rows) if key in made]
    return [key for key in there if sample.rows.get(key).is_floating_point()]


def tokens(evidence: Evidence, sample: Sample) -> list[Key]:
    """Integers that the env observes and policy or critic read, at the step."""
    subjects = [one for one in (evidence.policy, evidence.stepped_critic) if one is not None]
    read = {key for one in subjects for key in one.reads}
    return [key for key in evidence.env.limits if key in read and key in tensor_keys(sample.rows)]


def paid(evidence: Evidence, sample: Sample) -> list[Key]:
    """What else targets are made of: rewards, numbers that an estimator wrote for each step, and
    values that were recorded while acting."""
    policy = evidence.policy
    mask = [] if sample.mask is None else [sample.mask.key]
    skip = {*policy.writes, *policy.carry, *observed(evidence, sample), *mask}
    skip -= set(recorded_values(evidence, sample))
    found = []
    for key in tensor_keys(sample.rows):
        value, own = sample.rows.get(key), key[1:] if key[0] == "next" else key
        if key[0] in UNREAD or skip & {key, own, next_key(own)} or not value.is_floating_point():
            continue
        only_next = key[0] == "next" and own not in tensor_keys(sample.rows)
        if not only_next and _one_for_a_row(value, sample):
            continue
        if only_next or value.numel() == sample.valid.numel():
            found.append(key)
    return found


def _one_for_a_row(value: Tensor, sample: Sample) -> bool:
    """One number for each row, such as its weight, at every step of it: no step has it alone."""
    if value.numel() != sample.valid.numel() or sample.valid.shape[1] < 2:
        return False
    rows = value.reshape(sample.valid.shape)
    return bool((rows == rows[:, :1]).all())


def recorded_values(evidence: Evidence, sample: Sample) -> list[Key]:
    """One number for each step that the policy wrote beside its actions: values, log-probabilities.
    They belong to their step as its reward does."""
    states = {*evidence.policy.carry, *observed(evidence, sample)}
    return [
        key
        for key in evidence.policy.writes
        if key[0] != "next"
        and key not in states
        and key in tensor_keys(sample.rows)
        and (value := sample.rows.get(key)).is_floating_point()
        and value.numel() == sample.valid.numel()
    ]


Elements = Callable[[Sample, TensorDictBase], dict[str, Tensor]]


def without_memory(elements: Elements) -> Elements:
    """``elements`` of a twin without memory, even where the marks are dropped on their way to the
    network."""

    def twin(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        batch = memoryless_batch(sample, td)
        for one in (batch, memoryless_batch(sample, td, ahead=True)):  # it may refuse marks there
            with suppress(Unanswered), Memoryless():
                return elements(sample, one)
        # A module that takes no rows of one step: the batch's marks alone have to do.
        return elements(sample, batch)

    return twin


def neighbours(sample: Sample) -> bool:
    """Whether there are two segments, in one row or in two."""
    return int(through_rows(segments_of(sample)).max()) > 0


def layout(sample: Sample) -> str:
    """How the segments lie in the batch, in words."""
    rows, most = sample.valid.shape[0], int(segments_of(sample).max()) + 1
    in_rows = f"{rows} rows, " if rows > 1 else ""
    return f"{in_rows}{'up to ' if rows > 1 and most > 1 else ''}{most} segment" + (
        "s in a row" if most > 1 else " in each"
    )


def changing(evidence: Evidence, sample: Sample, elements: Elements) -> list[Key]:
    """What is changed to see a leak: observations, and what targets are made of where other values
    of it are taken."""
    seen, more = observed(evidence, sample), paid(evidence, sample)
    try:
        elements(sample, changed_batch(sample, sample.valid, [*seen, *more]))
    except Unanswered:  # a loss that takes certain rewards alone
        return seen
    return [*seen, *more]


def leaks(
    sample: Sample, keys: list[Key], elements: Elements, *, tolerance: float = 0.0
) -> tuple[list[Leak], bool]:
    """Quantities of untouched segments that change with the others; and whether anything changed at
    all."""
    base = elements(sample, sample.td)
    again = elements(sample, sample.td)
    found: dict[str, Leak] = {}
    alive = False
    for touched in parted(sample):
        after = elements(sample, changed_batch(sample, touched, keys))
        for name, old in base.items():
            new, noise = after.get(name), _noise(old, again.get(name), tolerance)
            if new is None or new.shape != old.shape or noise is None:
                continue
            alive = alive or bool(_moved(old, new, noise)[touched].any())
            leak = _leak(name, old, new, ~touched & sample.valid, tolerance)
            if leak is not None and name not in found:
                found[name] = leak
    return list(found.values()), alive


def changes_there(
    sample: Sample, keys: list[Key], elements: Elements, touched: Tensor, watch: Tensor
) -> bool:
    """Whether other values at the steps ``touched`` change a gradient at those to ``watch``."""
    base, after = (elements(sample, td) for td in (sample.td, changed_batch(sample, touched, keys)))
    there = [(old, after[name]) for name, old in base.items() if name in after]
    return any(
        old.shape == new.shape and _leak("", old, new, watch, GRADIENT) is not None
        for old, new in there
    )


def _noise(old: Tensor, again: Tensor | None, tolerance: float) -> float | None:
    """What two calls on the same batch may differ by: nothing, or with an accelerator, on which
    sums come in any order, up to ``tolerance`` of the largest; None where they differ by more."""
    if again is None:
        return None
    limits = (0.0, tolerance * _largest(old))
    return next((limit for limit in limits if not bool(_moved(old, again, limit).any())), None)


def _moved(old: Tensor, new: Tensor, limit: float) -> Tensor:
    return bits_differ(old, new) & ~(gap(new, old) <= limit)


def _largest(value: Tensor) -> float:
    return float(value.double().abs().nan_to_num(0.0, 0.0, 0.0).max())


def parted(sample: Sample) -> list[Tensor]:
    """Steps that are changed together: every other segment, and every other pair of them, since a
    batch may be joined in another order than it lies."""
    segments = through_rows(segments_of(sample))
    ways = [segments] if int(segments.max()) < 2 else [segments, (segments + 1) // 2]
    return [(way % 2 == parity) & sample.valid for way in ways for parity in (0, 1)]


def _leak(name: str, old: Tensor, new: Tensor, watch: Tensor, tolerance: float) -> Leak | None:
    wide = watch.reshape(*watch.shape, *([1] * (old.ndim - 2)))
    differ = bits_differ(old, new) & wide
    gaps = torch.where(differ, gap(new, old).clamp_min(1e-300), 0.0)
    limit = tolerance * _largest(old)
    difference = locate(gaps, limit, old)
    if difference is None:
        return None
    steps = (gaps > limit).flatten(2).any(-1) if gaps.ndim > 2 else gaps > limit
    return Leak(name, difference, int(steps.sum()), int(watch.sum()))


def _weighing(evidence: Evidence, sample: Sample) -> list[Key]:
    """Where tokens have no gradient: rewards and what was made of them weigh their terms. What the
    policy recorded, such as log-probabilities, TorchRL's losses refuse with a graph."""
    keys, recorded = paid(evidence, sample), set(recorded_values(evidence, sample))
    return [key for key in keys if key not in recorded] or keys


def input_gradients(
    evidence: Evidence,
    sample: Sample,
    td: TensorDictBase,
    total: Callable[[TensorDictBase], Tensor],
) -> dict[str, Tensor]:
    """Gradients of ``total`` at the observed float inputs, ``[rows, steps, ...]``; where there are
    none, at the rewards and other numbers of each step."""
    batch, leaves = with_leaves(evidence, sample, td)
    value = total(batch)
    if not value.requires_grad or not leaves:
        return {}
    grads = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    shape = sample.rows.shape
    return {
        AT_INPUT + ".".join(key): grad.reshape(*shape, *grad.shape[td.batch_dims :])
        for key, grad in zip(leaves, grads, strict=True)
        if grad is not None
    }


def with_leaves(
    evidence: Evidence, sample: Sample, td: TensorDictBase
) -> tuple[TensorDictBase, dict[Key, Tensor]]:
    """The batch with its observed float inputs as leaves of a graph, or rewards and other numbers
    of each step where there are none. What is compiled for it serves every run on such a batch."""
    batch = td.copy()
    keys = [k for k in observed(evidence, sample) if batch.get(k).is_floating_point()]
    keys = keys or _weighing(evidence, sample)
    leaves = {key: batch.get(key).detach().clone().requires_grad_() for key in keys}
    for key, leaf in leaves.items():
        batch.set(key, leaf)
    return batch, leaves
