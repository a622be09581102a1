"""Calling the user's loss on a training batch, and on changed copies of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import (
    Sample,
    batch_device,
    make_sample,
    samples,
)
from rnncheck.checks.rule import CouldNotLook, Deferred, NotApplicable, Unanswered
from rnncheck.numerics.kernels import reason_of
from rnncheck.numerics.perturb import changeable, perturbed
from rnncheck.pipeline.copying.copies import CannotCopy, copy_of
from rnncheck.pipeline.copying.holdings import trained_parameters
from rnncheck.pipeline.copying.restoring import CannotUndo
from rnncheck.pipeline.instruments.call_loss import total_of
from rnncheck.pipeline.instruments.module_calls import ModuleCalls
from rnncheck.pipeline.instruments.value_targets import Targets, unreduced
from rnncheck.pipeline.keys import Key, tensor_items, tensor_keys
from rnncheck.pipeline.placing import on_cpu, placed
from rnncheck.pipeline.subject.modes import MEASURING_SEED, measuring
from rnncheck.results.model import Stage

UNREAD = ("rnncheck", "collector")  # bookkeeping that no loss reads


@dataclass
class LossRun:
    """What one call of the loss gave; per-element entries are ``[rows, steps, ...]``."""

    total: Tensor
    parts: dict[str, Tensor]
    elements: dict[str, Tensor] = field(default_factory=dict)
    before: TensorDictBase | None = None
    after: TensorDictBase | None = None


Loss = Callable[[TensorDictBase], Any]


def loss_of(evidence: Evidence) -> Loss:
    """The loss. Unanswered where the spec has none or it failed to build."""
    loss: Loss | None = evidence.pipeline.loss
    if loss is None:
        failure = evidence.pipeline.failures.get(Stage.LOSS)
        if failure is None:
            raise evidence.absent(Stage.LOSS)
        raise CouldNotLook(f"the loss stage failed ({failure.message})")
    return loss


def needs_memory_inside(evidence: Evidence, sample: Sample) -> None:
    """Unanswered where the policy has no memory, and the loss leaves the critic's to an
    estimator."""
    if evidence.policy.carry:
        return
    with ModuleCalls() as inside:
        run_loss(evidence, sample, per_element=False)
    if not inside.passes:
        raise NotApplicable("the policy carries no state, and the loss runs no module that does")


def copied(loss: Loss) -> Loss:
    """A copy of the loss, so that no call changes another. Unanswered where none can be made."""
    try:
        return copy_of(loss, "the loss")
    except CannotCopy as error:
        raise CouldNotLook(str(error)) from error


def run_loss(
    evidence: Evidence,
    sample: Sample,
    td: TensorDictBase | None = None,
    *,
    loss: Loss | None = None,
    per_element: bool = True,
    seed: int = MEASURING_SEED,
) -> LossRun:
    """Call the loss on ``td`` (default: the training batch itself), seeded, in the ambient mode.

    ``elements`` are the entries that it writes for every step, the targets that its value estimator
    computes, and its unreduced form where it has one. Raises Unanswered where the loss raises.
    """
    network = copied(loss_of(evidence)) if loss is None else loss
    before = sample.td if td is None else td
    batch = placed(before, batch_device(evidence)).clone()  # a loss may write in place
    handed = {key: (value, value._version) for key, value in tensor_items(batch)}
    try:
        with ambient(seed), Targets(network) as targets, unreduced(network, per_element) as parted:
            total, parts = total_of(network(batch))
    except CannotUndo as error:
        raise CouldNotLook(str(error)) from error
    except Exception as error:
        if per_element:  # our own way of asking for its terms may be what raises
            return run_loss(evidence, sample, td, loss=loss, per_element=False, seed=seed)
        raise _raised(error, changed=td is not None) from error
    parts = {name: on_cpu(value) for name, value in parts.items()}
    run = LossRun(on_cpu(total), parts, before=before, after=on_cpu(batch))
    shape = sample.rows.shape
    for key, value in tensor_items(batch):
        old, version = handed.get(key, (None, 0))
        if value is not old or value._version != version:  # also with what stood there before
            _add(run.elements, "written " + ".".join(key), value, shape)
    for name, value in targets.seen.items():
        _add(run.elements, name, value, shape)
    for name, value in (parts if parted() else {}).items():
        _add(run.elements, name, value, shape)
    return run


def _raised(error: Exception, *, changed: bool) -> Unanswered:
    """On the batch as it is, LS706 has the finding; on one that we changed, nobody has."""
    if changed:
        return CouldNotLook(f"the loss raises on a changed training batch ({reason_of(error)})")
    return Deferred(f"the loss raises on the training batch ({reason_of(error)})", "LS706")


def ambient(seed: int = MEASURING_SEED) -> AbstractContextManager[None]:
    """Seeded, with gradients, exploring as while training, in no recurrent mode of ours."""
    return measuring(recurrent=None, explore=True, grad=True, seed=seed)


def _add(elements: dict[str, Tensor], name: str, value: Tensor, shape: torch.Size) -> None:
    """Keep ``value`` as ``[rows, steps, ...]`` if it has one entry per step."""
    steps = shape.numel()
    if value.numel() % steps or value.ndim == 0:
        return
    for lead in (shape, torch.Size([steps])):
        if value.shape[: len(lead)] == lead:
            elements[name] = on_cpu(value.detach()).reshape(*shape, *value.shape[len(lead) :])
            return
    if value.numel() == steps:
        elements[name] = on_cpu(value.detach()).reshape(shape)


def float_inputs(td: TensorDictBase, *, root: bool, following: bool) -> list[Key]:
    """Float entries that a loss may read: of the step itself, and of the step after it."""
    keys = [key for key in tensor_keys(td) if key[0] not in UNREAD]
    dense = [key for key in keys if td.get(key).is_floating_point()]
    return [key for key in dense if (following if key[0] == "next" else root)]


def changed_batch(
    sample: Sample, mask: Tensor, keys: Iterable[Key], *, seed: int = 3
) -> TensorDictBase:
    """The training batch with other values of ``keys`` at ``mask`` ``[rows, steps]``, as far as a
    step has one: what was observed behind an end alone was no step."""
    generator = torch.Generator().manual_seed(seed)
    rows, limits = sample.rows.clone(), sample.steps.recording.env.limits
    read, acted = sample.steps.recording.subject.reads, mask & ~sample.resting
    for key in keys:
        value = rows.get(key)
        at = mask if {key, key[1:]} & {*read} else acted
        drawn = None if changeable(value) else limits.get(key[1:] if key[0] == "next" else key)
        if changeable(value, drawn):
            rows.set(key, perturbed(value, at, generator, drawn))
    return rows.reshape(sample.td.shape)


def memoryless_batch(sample: Sample, td: TensorDictBase, *, ahead: bool = False) -> TensorDictBase:
    """The batch for the memoryless twin: every step, and every next step, begins a trajectory;
    with ``ahead`` the steps alone, as no next one does while acting."""
    twin = td.clone()
    for key in tensor_keys(twin):
        if key[-1] == "is_init" and not (ahead and key[0] == "next"):
            twin.set(key, torch.ones_like(twin.get(key)))
    if ahead:
        return twin
    for key in sample.steps.recording.subject.flags:
        if key in tensor_keys(twin):
            twin.set(("next", *key), torch.ones_like(twin.get(key)))
    return twin


def parameters_of(loss: Loss) -> list[tuple[str, nn.Parameter]]:
    """Named parameters of the loss that are trained, those in a closure too."""
    return [*trained_parameters(loss).items()]


def each_sample(evidence: Evidence) -> list[tuple[int, Sample]]:
    """The training batches that the loss checks look at."""
    found = list(enumerate(_loss_batches(evidence)))
    if not _collects_states(evidence, found) and any(_holds_codes(one) for _, one in found[1:]):
        return found[:1]  # networks made them, with weights that were trained since
    return found if evidence.thorough else found[:2]


def _collects_states(evidence: Evidence, found: list[tuple[int, Sample]]) -> bool:
    subjects = (one for one in (evidence.policy, evidence.stepped_critic) if one is not None)
    keys = {key for one in subjects for key in one.carry}
    return any(one.steps.column(key) is not None for _, one in found[:1] for key in keys)


def _holds_codes(sample: Sample) -> bool:
    """Whether it has vectors that nobody collected under their name, such as states that networks
    made for it."""
    items = ((key, one) for key, one in tensor_items(sample.rows) if one.is_floating_point())
    wide = [(key, one) for key, one in items if one.numel() > sample.valid.numel()]
    return any(sample.steps.column(key) is None and bool(one.any()) for key, one in wide)


def _loss_batches(evidence: Evidence) -> list[Sample]:
    found, whole = samples(evidence), evidence.pipeline.whole
    if not whole:
        return found
    return evidence.once("loss batches", lambda: [make_sample(evidence, td) for td in whole])
