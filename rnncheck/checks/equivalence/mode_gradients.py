"""Gradients through recurrent mode and through the unroll, and what of them is rounding alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.random_mix import mixed
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected, as_rows, recurrent_outputs
from rnncheck.checks.evidence.unrun import unrun
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import RunSettings, StartStates, run_recurrent, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key

_SHAKE = 8.0  # roundings by which parameters and inputs are moved, to see what rounding does
_SHAKES = (1, 2, 3)  # seeds
_BEYOND = 30.0  # times the largest change seen: a shake is a sample of what rounding can do


@dataclass(frozen=True)
class Asked:
    """Whose gradients: those of the outputs of one segment, or of the states at its end."""

    evidence: Evidence
    subject: Subject
    made: Constructed
    dtype: torch.dtype | None
    states: bool = False
    without: frozenset[Key] = frozenset()  # outputs that are not asked for
    since: int = 0  # steps ahead, whose outputs are not asked for either

    def of_states(self) -> Asked:
        """The same question about the end states."""
        return replace(self, states=True)

    def mix(self, rows: TensorDictBase) -> Tensor | None:
        """One number out of what is asked; None where it has no graph."""
        if self.states:
            states = [next_key(key) for key in self.subject.carry]
            return mixed(rows, states, self.made.ends & self._asked())
        return mixed(rows, self._outputs(), self._asked())

    def _asked(self) -> Tensor:
        asked = torch.ones_like(self.made.starts)
        asked[:, : self.since] = False
        return asked

    def _outputs(self) -> list[Key]:
        """Those that both modes give: a training pass of the user's may give fewer."""
        both = recurrent_outputs(self.evidence, self.subject, self.made)
        keys = comparable_outputs(self.evidence, self.subject, both)
        there = (key for key in keys if key in self.made.truth.keys(True, True))
        return [key for key in there if key not in self.without]

    def of_the_memory(self) -> Asked:
        """The same question without heads that recurrent mode parts from the memory: they have
        gradients, and none at what was observed."""
        outputs = self._outputs()
        alone = {key: replace(self, without=frozenset(outputs) - {key}) for key in outputs}
        given = {key: gradients(one, recurrent=True) for key, one in alone.items()}
        seen = set(map(dotted, float_keys(self.subject, self.made.inputs)))
        parted = {
            key
            for key, one in given.items()
            if one.largest() > 0
            and not any(bool(one.values[n].any()) for n in seen & {*one.values})
        }
        return replace(self, without=frozenset(parted))


@dataclass(frozen=True)
class Gradients:
    """Gradients by name: parameters by their path, inputs by their key."""

    values: dict[str, Tensor]

    def largest(self) -> float:
        return max((float(v.abs().max()) for v in self.values.values()), default=0.0)

    def finite(self) -> bool:
        """Whether all of them are numbers."""
        return all(bool(v.isfinite().all()) for v in self.values.values())


def gradients(asked: Asked, *, recurrent: bool, shake: int | None = None) -> Gradients:
    """Gradients of a random mix of the outputs, through one of the modes; ``shake`` is the seed of
    a change of parameters and inputs by some roundings."""
    subject, network = asked.subject, asked.subject.copy(asked.dtype)
    inputs = leaves(subject, asked.made.inputs, asked.dtype)
    if shake is not None:
        _shaken(subject, network, inputs, shake)
    total = objective(asked, network, inputs, recurrent=recurrent)
    own = {n: p for n, p in network.named_parameters() if not p.is_meta}  # not of a template
    trained = {n: p for n, p in own.items() if p.requires_grad}
    named = trained | {dotted(k): inputs.get(k) for k in float_keys(subject, inputs)}
    if total is None:
        return Gradients({})
    grads = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    pairs = zip(named, grads, named.values(), strict=True)
    return Gradients({n: g if g is not None else torch.zeros_like(p) for n, g, p in pairs})


def _shaken(subject: Subject, network: nn.Module, inputs: TensorDictBase, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    dense = [inputs.get(key) for key in float_keys(subject, inputs)]
    with torch.no_grad():
        own = (p for p in network.parameters() if p.is_floating_point() and not p.is_meta)
        for value in (*own, *dense):
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            value.mul_((1 + _SHAKE * torch.finfo(value.dtype).eps * noise).to(value))


def leaves(subject: Subject, inputs: TensorDictBase, dtype: torch.dtype | None) -> TensorDictBase:
    """The inputs, those of a floating type as leaves that a gradient can be asked of."""
    td = inputs.clone()
    for key in float_keys(subject, inputs):
        value = td.get(key) if dtype is None else td.get(key).to(dtype)
        td.set(key, value.clone().requires_grad_())
    return td


def float_keys(subject: Subject, inputs: TensorDictBase) -> list[Key]:
    """The inputs of a floating type."""
    keys = subject.changeable_inputs(inputs)
    return [key for key in keys if inputs.get(key).is_floating_point()]


def objective(
    asked: Asked, network: nn.Module, inputs: TensorDictBase, *, recurrent: bool
) -> Tensor | None:
    """The random mix of what one of the modes gives."""
    subject, made = asked.subject, asked.made
    settings = RunSettings(dtype=asked.dtype, grad=True)
    if recurrent:
        batch = as_collected(subject, made.batch(subject, inputs))
        try:
            out = run_recurrent(subject, batch, module=network, settings=settings)
        except Exception as error:
            raise unrun(subject, error) from error
        return asked.mix(as_rows(out, made.starts.shape))
    states = StartStates(fresh={k: v[:, 0] for k, v in made.stored.items()})
    return asked.mix(
        unroll_subject(subject, inputs, made.starts, states, module=network, settings=settings)
    )


def furthest(
    left: Gradients, right: Gradients, noise: dict[str, float] | None = None
) -> tuple[str, float] | None:
    """The gradient that differs most by more than ``noise``, relative to its tensor's largest entry
    (and not below the overall scale)."""
    floor = 1e-6 * max(left.largest(), right.largest(), 1e-30)
    worst: tuple[str, float] | None = None
    for name in left.values.keys() & right.values.keys():
        a, b = left.values[name], right.values[name]
        scale = max(float(a.abs().max()), float(b.abs().max()), floor)
        gap = float((a - b).abs().nan_to_num(nan=torch.inf).max())
        if noise is not None and gap <= noise[name]:
            continue
        if worst is None or gap / scale > worst[1]:
            worst = (name, gap / scale)
    return worst


def rounding(asked: Asked, left: Gradients, right: Gradients) -> dict[str, float]:
    """By name, how much of a gradient rounding can make: what it moves by in either mode when
    parameters and inputs move by some roundings."""
    found = dict.fromkeys(left.values.keys() & right.values.keys(), 0.0)
    for recurrent, base in ((True, left), (False, right)):
        for seed in _SHAKES:
            moved = gradients(asked, recurrent=recurrent, shake=seed)
            for name in found.keys() & moved.values.keys():
                change = float((moved.values[name] - base.values[name]).abs().nan_to_num().max())
                found[name] = max(found[name], _BEYOND * change)
    return found


def beyond(found: Gradients, noise: dict[str, float]) -> int:
    """How many gradients are more than rounding."""
    return sum(float(found.values[name].abs().max()) > size for name, size in noise.items())
