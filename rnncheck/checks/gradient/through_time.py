"""Whether a gradient goes back in time through a network's own recurrent pass."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.constructed_batches import trained_head
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.random_mix import mixed
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected, as_rows, needs_recurrence
from rnncheck.checks.evidence.unrun import unrun
from rnncheck.checks.rule import CouldNotLook
from rnncheck.numerics.difference import bits_differ, features
from rnncheck.numerics.perturb import perturbed
from rnncheck.pipeline.instruments.module_calls import ModuleCall, ModuleCalls, main_input
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.placing import device_of, on_cpu, placed
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.pipeline.subject.passes import RunSettings, run_recurrent
from rnncheck.pipeline.subject.subject import Subject

_LEAST = 3  # steps: of two, truncation at every second step may leave none joined
_NUDGE = 1e-3  # of the largest input: what a smooth memory passes on in proportion
_PROPORTION = (1.5, 2.5)  # of the changes that a nudge and half of it make


def reaches_back(evidence: Evidence, subject: Subject) -> tuple[bool, bool]:
    """Whether the output of any recurrent module has a gradient at an earlier input, over one
    segment in recurrent mode; and whether any of those that have none is trained.

    Unanswered where no module could have one: none has a gradient at the step itself, or what came
    before changes nothing that a derivative would show.
    """
    needs_recurrence(evidence, subject)
    passes = [one for one in _passes(evidence, subject) if _has_steps(one)]
    told = [(one, back) for one in passes if (back := _goes_back(one)) is not None]
    if not told:
        return _from_outside(evidence, subject)
    if any(back for _, back in told):
        return True, False
    smooth = [one for one, _ in told if _remembers(one)]
    if not smooth:
        raise CouldNotLook(
            f"no nudge of an earlier input moves what the {subject.stage}'s recurrent modules give"
        )
    return False, any(p.requires_grad for one in smooth for p in one.module.parameters())


def _passes(evidence: Evidence, subject: Subject) -> list[ModuleCall]:
    made, since = trained_head(evidence, subject)
    if made.steps - since < _LEAST:
        raise CouldNotLook(f"no episode head has {_LEAST} steps")
    batch = as_collected(subject, made.batch(subject))
    try:
        with ModuleCalls(probing=True) as inside:
            run_recurrent(subject, batch, settings=RunSettings(grad=True))
    except Exception as error:
        raise unrun(subject, error) from error
    return inside.passes


def _from_outside(evidence: Evidence, subject: Subject) -> tuple[bool, bool]:
    """The same where no module inside can be watched (a pass that calls cells by hand): by the
    gradient of the outputs at what is observed."""
    (made, since), network = trained_head(evidence, subject), subject.copy()
    batch = made.batch(subject)
    keys = [k for k in subject.changeable_inputs(made.inputs) if batch.get(k).is_floating_point()]
    leaves = {key: batch.get(key).clone().requires_grad_() for key in keys}
    late = (torch.arange(made.steps) >= (since + made.steps) // 2).expand(batch.shape)
    draw = torch.Generator().manual_seed(7)
    early = {key: perturbed(batch.get(key), ~late, draw) for key in keys}
    whole, other = (_outputs(subject, network, batch, given) for given in (leaves, early))
    told = comparable_outputs(evidence, subject, whole)
    total = mixed(whole, told, late)
    wanted = list(leaves.values())
    found: tuple[Tensor | None, ...] = ()
    if total is not None and wanted:
        found = torch.autograd.grad(total, wanted, allow_unused=True)
    grads = [features(grad).abs().amax(-1) != 0 for grad in found if grad is not None]
    if any(bool(grad[~late].any()) for grad in grads):
        return True, False
    moved = any(bool(bits_differ(other.get(key), whole.get(key))[late].any()) for key in told)
    if not moved or not any(bool(grad.any()) for grad in grads):
        raise CouldNotLook(
            f"no recurrent module of the {subject.stage} could be watched, and its outputs have no"
            " gradient at what is observed, or do not change with what came before"
        )
    return False, any(parameter.requires_grad for parameter in network.parameters())


def _outputs(
    subject: Subject, network: nn.Module, batch: TensorDictBase, given: dict[Key, Tensor]
) -> TensorDictBase:
    """``[rows, steps]``, with the graph."""
    td = as_collected(subject, batch.copy().update(given))
    out = run_recurrent(subject, td, module=network, settings=RunSettings(grad=True))
    return as_rows(out, batch.shape)


def _has_steps(one: ModuleCall) -> bool:
    """It ran over the segment's steps at once, and gives something for each."""
    shape = one.shape
    whole = len(shape) > 0 and shape[-1] >= _LEAST
    return whole and one.y.shape[: len(shape)] == shape


def _every_second(one: ModuleCall) -> list[Tensor]:
    even = torch.arange(one.shape[-1]) % 2 == 0
    return [even, ~even]


def _goes_back(one: ModuleCall) -> bool | None:
    """Whether outputs have a gradient at the steps in between; None where they have none at their
    own."""
    if one.probe is None or not one.y.requires_grad:
        return None
    y, local, earlier = _by_steps(one, one.y), False, False
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(4)).to(y.dtype)
    for at in _every_second(one):
        total = (y * weight)[:, at].sum()
        (grad,) = torch.autograd.grad(total, [one.probe], retain_graph=True, allow_unused=True)
        if grad is not None:
            moved = _by_steps(one, grad) != 0
            local = local or bool(moved[:, at].any())
            earlier = earlier or bool(moved[:, ~at].any())
    return earlier if local and (earlier or not reads_tokens(one)) else None


def reads_tokens(one: ModuleCall) -> bool:
    """The module reads integers, which have no gradient: what it remembers may be theirs."""
    keys = [key for key in tensor_keys(one.given) if key not in one.carry]
    kinds = {one.given.get(key).dtype for key in keys}
    return any(not kind.is_floating_point and kind is not torch.bool for kind in kinds)


def _remembers(one: ModuleCall) -> bool:
    """A nudge of the inputs at every second step moves the outputs in between, and half of it half
    as much: there is a derivative."""
    for at in _every_second(one):
        base, half, whole = (_again(one, at, size) for size in (0.0, _NUDGE / 2, _NUDGE))
        less, more = (float((y - base)[:, ~at].double().norm()) for y in (half, whole))
        if less and _PROPORTION[0] < more / less < _PROPORTION[1]:
            return True
    return False


def _again(one: ModuleCall, at: Tensor, size: float) -> Tensor:
    """The module's outputs ``[rows, steps, features]`` with its inputs nudged at some steps."""
    td = one.given.clone()
    if (given := main_input(one.module, td)) is not None:
        key, x = given
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(7)).to(x.dtype)
        wide = at.reshape(-1, *([1] * (x.ndim - len(one.shape))))
        td.set(key, x + size * max(float(x.abs().max()), 1.0) * noise * wide)
    with measuring(recurrent=True):
        y: Tensor = one.module(placed(td, device_of(one.module))).get(one.output)
    return _by_steps(one, y)


def _by_steps(one: ModuleCall, value: Tensor) -> Tensor:
    """``[rows, steps, features]``."""
    steps: Tensor = on_cpu(value).reshape(one.shape[:-1].numel(), one.shape[-1], -1)
    return steps
