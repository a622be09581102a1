"""What a policy puts out at a step, and how far two of them lie apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import ProbabilisticTensorDictModule
from torch import Tensor, nn
from torch.distributions import Distribution, kl_divergence

from rnncheck.pipeline.keys import Key, as_key, declared, dotted, tensor_keys
from rnncheck.pipeline.subject.env_facts import EnvFacts
from rnncheck.pipeline.subject.passes import cast
from rnncheck.pipeline.subject.subject import Subject, innermost

ROOT_KL = "root of KL (nats)"
DIFFERENCE = "difference"


@dataclass(frozen=True)
class MeasuredOutput:
    """One output: a distribution over actions, or floats such as values.

    A KL grows with the square of a small difference: its root grows with the difference, so that
    curves of both kinds halve at the same lag.
    """

    name: str
    keys: tuple[Key, ...]  # of its floats
    agents: int = 1
    maker: Any = None  # what makes the distribution out of the floats
    acts: bool = True  # the action follows from it

    @property
    def unit(self) -> str:
        return DIFFERENCE if self.maker is None else ROOT_KL

    def distance(self, left: TensorDictBase, right: TensorDictBase) -> Tensor:
        """``[rows, steps, agents]`` in float64, of outputs ``[rows, steps]``."""
        if self.maker is not None:
            found = _divergence(self._made(left), self._made(right))
            if found is not None:
                return _per_agent(found, self.agents, torch.sum).clamp_min(0).sqrt()
        parts = [
            _per_agent((left.get(k).double() - right.get(k).double()) ** 2, self.agents, torch.sum)
            for k in self.keys
        ]
        return torch.stack(parts).sum(0).sqrt()

    def has_divergence(self, outputs: TensorDictBase) -> bool:
        """Whether torch knows the KL of these distributions."""
        made = self._made(outputs[:1])
        return _divergence(made, made) is not None

    def agents_in(self, outputs: TensorDictBase) -> int:
        """How many agents ``outputs`` ``[rows, steps]`` hold apart."""
        whole = all(outputs.get(k)[0, 0].numel() % self.agents == 0 for k in self.keys)
        return self.agents if whole else 1

    def _made(self, outputs: TensorDictBase) -> Distribution:
        wide = cast(outputs.select(*self.keys), torch.float64)
        made: Distribution = self.maker.get_dist(wide)
        return made


def measured_outputs(
    subject: Subject, outputs: TensorDictBase, agents: dict[str, int], actions: Collection[Key]
) -> list[MeasuredOutput]:
    """What ``subject`` puts out, by structure.

    Its distributions over actions, and the floats that no other part of it reads; ``agents`` says
    how many there are below a first key. What a recurrent part gives to nobody is no output beside
    others.
    """
    found, acting = _found(subject, outputs, agents), _before(subject.module, actions)
    own = {key for carrier in subject.carriers for key in declared(carrier.module, "out_keys")}
    marked = [replace(one, acts=not acting.isdisjoint(one.keys)) for one in found]
    useful = [one for one in marked if one.acts or own.isdisjoint(one.keys)]
    return useful or marked


def _before(module: nn.Module, actions: Collection[Key]) -> set[Key]:
    """The actions, and every key that they are made of."""
    parts, needed = [part for _, part in innermost(module)], set(actions)
    makers = [*parts, *_makers(module)]
    while True:
        more = {
            key
            for part in makers
            if not needed.isdisjoint(declared(part, "out_keys"))
            for key in declared(part, "in_keys")
        }
        if more <= needed:
            return needed
        needed |= more


def _found(
    subject: Subject, outputs: TensorDictBase, agents: dict[str, int]
) -> list[MeasuredOutput]:
    makers = _makers(subject.module)
    found = [_distribution(one, outputs, agents) for one in makers]
    told = {
        key for one in makers for key in (*declared(one, "in_keys"), *declared(one, "out_keys"))
    }
    left = [key for key in _ends(subject, outputs) if key not in told]
    values = [MeasuredOutput(dotted(key), (key,), agents.get(key[0], 1)) for key in left]
    return [one for one in found if one is not None] + values


def _makers(module: nn.Module) -> list[Any]:
    return [part for part in module.modules() if isinstance(part, ProbabilisticTensorDictModule)]


def _distribution(
    maker: Any, outputs: TensorDictBase, agents: dict[str, int]
) -> MeasuredOutput | None:
    keys = tuple(key for key in declared(maker, "in_keys") if outputs.get(key, None) is not None)
    if not keys:
        return None
    names = ", ".join(dotted(key) for key in declared(maker, "out_keys")[:1])
    found = MeasuredOutput(f"distribution of {names}", keys, agents.get(keys[0][0], 1), maker)
    return found if found.has_divergence(outputs) else replace(found, maker=None)


def _ends(subject: Subject, outputs: TensorDictBase) -> list[Key]:
    """Floats at the root that no part reads but the one that writes them too, without what such a
    part makes of them alone."""
    parts = [part for _, part in innermost(subject.module)]
    read = {
        key
        for part in parts
        for key in declared(part, "in_keys")
        if key not in declared(part, "out_keys")
    }
    mine = set(subject.carry) | set(subject.flags)
    promised = {key for part in parts for key in declared(part, "out_keys")} | set(subject.writes)
    keys = [key for key in tensor_keys(outputs) if key[0] != "next" and key not in mine | read]
    keys = [key for key in keys if key in promised or not subject.writes]
    ends = [key for key in keys if outputs.get(key).is_floating_point()]
    made = {
        key
        for part in parts
        if (given := declared(part, "in_keys")) and set(given) <= set(ends)
        for key in declared(part, "out_keys")
        if key not in given
    }
    return [key for key in ends if key not in made]


def agents_of(facts: EnvFacts) -> dict[str, int]:
    """How many agents a reset has below each first key: the batch of that group beyond the
    env's."""
    found = {}
    for name, group in facts.first.items():
        if isinstance(group, TensorDictBase) and group.batch_dims > facts.rank:
            found[as_key(name)[0]] = group.batch_size[facts.rank :].numel()
    return found


def _per_agent(values: Tensor, agents: int, reduce: Any) -> Tensor:
    """``[rows, steps, agents]``: what is left of each agent is summed up."""
    rows, steps = values.shape[:2]
    if agents > 1 and values[0, 0].numel() % agents == 0:
        wide: Tensor = reduce(values.reshape(rows, steps, agents, -1), -1)
        return wide
    narrow: Tensor = reduce(values.reshape(rows, steps, -1), -1).unsqueeze(-1)
    return narrow


def _divergence(left: Distribution, right: Distribution) -> Tensor | None:
    """KL, where torch knows it: of what is transformed alike it is that of what lies below."""
    pairs: Iterable[tuple[Any, Any]] = _unwrapped(left, right)
    for one, other in pairs:
        try:
            found: Tensor = kl_divergence(one, other)
        except NotImplementedError:
            continue
        return found
    return None


def _unwrapped(left: Any, right: Any) -> Iterable[tuple[Any, Any]]:
    while left is not None:
        yield left, right
        left, right = (getattr(one, "base_dist", None) for one in (left, right))
