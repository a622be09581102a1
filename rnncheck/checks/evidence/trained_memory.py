"""What a loss trains of the recurrent modules, and what it leaves to a script's other losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import copied, each_sample, loss_of, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import NotApplicable, Unanswered
from rnncheck.pipeline.copying.holdings import trained_parameters
from rnncheck.pipeline.instruments.trained_parameters import recurrent_parameters, same_weights
from rnncheck.pipeline.subject.passes import RunSettings, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key

# Of other weights, in mean sizes of what they are. Chosen: enough to leave a clamp.
STRENGTHS = (1.0, 10.0)
AS_OBSERVED = (
    "the states hold what was observed, and nothing that is learned: no gradient need reach back"
)
FIXED = "what carries the state has no parameters: there is nothing in it to train"


@dataclass
class MemoryGradients:
    """The largest gradient of each recurrent parameter that a loss holds, by name, and of any other
    parameter, over its training batches; without parameters that no gradient reaches while it does
    their twins, as those of a target network."""

    recurrent: dict[str, float] = field(default_factory=dict)
    rest: float = 0.0


def memory_gradients(evidence: Evidence) -> MemoryGradients:
    """Those of the loss. Unanswered where it cannot be called."""
    return evidence.once("gradients of the memory", lambda: _measured(evidence))


def _measured(evidence: Evidence) -> MemoryGradients:
    found = MemoryGradients()
    for _, sample in each_sample(evidence):
        loss = copied(loss_of(evidence))
        recurrent, rest = recurrent_parameters(loss, evidence.pipeline, evidence.subjects)
        total = run_loss(evidence, sample, loss=loss, per_element=False).total
        if not total.requires_grad or not recurrent:
            continue
        wanted = [*recurrent.values(), *rest]
        grads = torch.autograd.grad(total, wanted, allow_unused=True)
        sizes = [0.0 if g is None else float(g.abs().max()) for g in grads]
        if any(g is not None and not size for g, size in zip(grads, sizes, strict=True)):
            sizes = _elsewhere(evidence, sample, sizes)
        found.rest = max([found.rest, *sizes[len(recurrent) :]])
        named = dict(zip(recurrent, sizes, strict=False))
        copies = _copies(recurrent, named)
        for name, size in named.items():
            if size or name.rpartition(".")[0] not in copies:
                found.recurrent[name] = max(size, found.recurrent.get(name, 0.0))
    return found


def _elsewhere(evidence: Evidence, sample: Sample, sizes: list[float]) -> list[float]:
    """The same with other weights where a gradient that is there is zero with these: a part of the
    loss is clamped or saturated, such as a divergence below its free nats."""
    found = list(sizes)
    ids = {id(one) for one in trained_parameters(loss_of(evidence)).values()}
    for strength in STRENGTHS:
        loss = copied(loss_of(evidence))
        recurrent, rest = recurrent_parameters(loss, evidence.pipeline, evidence.subjects)
        if ids & {id(one) for one in (*recurrent.values(), *rest)}:
            return found  # a copy that shares weights: the user's must not move
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for one in (*recurrent.values(), *rest):
                noise = torch.randn(one.shape, generator=draw).to(one)
                one += strength * float(one.abs().mean()) * noise
        total = run_loss(evidence, sample, loss=loss, per_element=False).total
        if not total.requires_grad or not bool(total.isfinite()):
            continue
        grads = torch.autograd.grad(total, [*recurrent.values(), *rest], allow_unused=True)
        now = [0.0 if g is None else float(g.abs().max()) for g in grads]
        found = [size or other for size, other in zip(found, now, strict=True)]
    return found


def _copies(recurrent: Mapping[str, Tensor], sizes: Mapping[str, float]) -> set[str]:
    """The layers of targets: with weights of one that gets a gradient, and none themselves. A bias
    of one number tells nothing by itself."""
    trained = [recurrent[name] for name, size in sizes.items() if size]
    silent = (name for name, size in sizes.items() if not size)
    return {
        name.rpartition(".")[0]
        for name in silent
        if any(same_weights(recurrent[name], one) for one in trained)
    }


def trained_memory(evidence: Evidence) -> set[int]:
    """The recurrent parameters at which the loss has a gradient, by id; none where it cannot be
    called."""
    try:
        sizes = memory_gradients(evidence).recurrent
    except Unanswered:
        return set()
    held = trained_parameters(evidence.pipeline.loss)
    return {id(held[name]) for name, size in sizes.items() if size > 0 and name in held}


def needs_memory(evidence: Evidence) -> None:
    """Unanswered where policy and critic hold no memory that this loss could ignore or train, or
    where another loss of the script trains it."""
    if evidence.finds("WR101"):
        raise NotApplicable("no module of the policy or critic carries state")
    if any(map(trains_memory, evidence.others)) and not trains_memory(evidence):
        raise NotApplicable("this loss trains no module that carries state, and another one does")


def has_fixed_memory(*subjects: Subject | None) -> bool:
    """Whether what carries their state has no parameters at all, as a stack of frames and the
    reservoir of an echo state network have none: there is nothing to train, by design."""
    carriers = [one for subject in subjects if subject is not None for one in subject.carriers]
    return bool(carriers) and not any(True for one in carriers for _ in one.module.parameters())


def remembers_the_given(evidence: Evidence) -> bool:
    """Whether, on top of that, the policy's states have no gradient at any parameter: they hold
    what was observed and nothing that is learned, as a window of raw observations does."""
    subject = evidence.policy
    if not has_fixed_memory(*evidence.subjects):
        return False
    inputs = subject.inputs_of(evidence.env.first).reshape(evidence.env.rows).unsqueeze(1)
    starts = torch.ones(inputs.shape[:2], dtype=torch.bool)
    out = unroll_subject(subject, inputs, starts, settings=RunSettings(grad=True))
    states = [out.get(next_key(key), None) for key in subject.carry]
    return not any(one is not None and one.requires_grad for one in states)


def trains_memory(evidence: Evidence) -> bool:
    """Whether the loss has a gradient at a recurrent parameter."""
    try:
        return any(size > 0 for size in memory_gradients(evidence).recurrent.values())
    except Unanswered:
        return False


def ends_with(name: str, one: str) -> bool:
    """Whether a parameter is the one that goes by that name, behind whatever holds the loss."""
    return name == one or name.endswith(f".{one}")


def trained_elsewhere(evidence: Evidence, name: str) -> bool:
    """Whether another loss of the script has a gradient at the recurrent parameter that this one
    holds under ``name``."""
    mine = trained_parameters(evidence.pipeline.loss).get(name)
    for other in evidence.others:
        if other.pipeline.loss is None or not trains_memory(other):
            continue
        held = trained_parameters(other.pipeline.loss)
        trained = (held.get(one) for one, size in memory_gradients(other).recurrent.items() if size)
        if any(parameter is mine for parameter in trained):
            return True
    return False
