"""The networks inside of a loss, each with the form of its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.parameter import is_lazy
from torchrl.objectives import LossModule

from rnncheck.pipeline.copying.holdings import held_modules

_TARGET = "target_"


@dataclass(frozen=True)
class HeldNetwork:
    """Its ``name`` in what holds it; two of one ``form`` are of one class, and have weights of the
    same names and shapes."""

    name: str
    form: Any
    weights: list[Tensor]


def networks_in(holder: Any) -> Iterator[HeldNetwork]:
    """All that a call of ``holder`` can reach, the outer ones first; of TorchRL's losses those that
    targets are made with as well."""
    for outer, module in held_modules(holder):
        for name, one in module.named_modules(prefix=outer):
            if isinstance(one, LossModule):
                yield from _of_loss(name, one)
            weights = dict(one.named_parameters())
            if weights and not any(map(is_lazy, weights.values())):
                yield HeldNetwork(name, (type(one), _form_of(weights)), _in_order(weights))


def _of_loss(name: str, loss: LossModule) -> Iterator[HeldNetwork]:
    """The parameters by the network's name, and the targets', which are buffers."""
    groups = dict[str, dict[str, Tensor]]()
    for path, one in (*loss.named_parameters(), *loss.named_buffers()):
        first, _, rest = path.partition(".")
        if first.endswith("_params") and rest:
            groups.setdefault(first, {})[rest] = one
    for first, weights in groups.items():
        form = first.removeprefix(_TARGET), _form_of(weights)
        yield HeldNetwork(f"{name}.{first}" if name else first, form, _in_order(weights))


def _in_order(weights: Mapping[str, Tensor]) -> list[Tensor]:
    """By their names: those of two networks of one form are pairs."""
    return [weights[name] for name in sorted(weights)]


def _form_of(weights: Mapping[str, Tensor]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, tuple(one.shape)) for name, one in weights.items()))
