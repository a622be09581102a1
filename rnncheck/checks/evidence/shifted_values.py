"""What networks give without a graph, where the same kind of network is trained: the values that
targets are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

# A kind of network: its class, and the shapes of its weights.
Kind = tuple[type[nn.Module], tuple[torch.Size, ...]]


@dataclass(frozen=True)
class GivenValues:
    """What a network gave in a call, whether with a graph, and the kinds that called it."""

    kind: Kind
    output: Tensor
    graphed: bool
    inside: frozenset[Kind]


class ShiftedValues:
    """Notes them while the context is open; of the kind ``shift``, what is given without a graph
    has a constant added to it, or what the one ``call`` of that kind gives. Of a network that gives
    a state beside its output it is the output."""

    def __init__(
        self, shift: Kind | None = None, much: float = 0.0, *, call: int | None = None
    ) -> None:
        self._shift, self._much, self._call = shift, much, call
        self._open = list[Kind]()
        self.seen = list[GivenValues]()

    def __enter__(self) -> ShiftedValues:
        self._handles = [
            register_module_forward_pre_hook(self._entered),
            register_module_forward_hook(self._gave, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _entered(self, module: nn.Module, _inputs: object) -> None:
        self._open.append(_kind_of(module))

    def _gave(self, module: nn.Module, _inputs: object, result: Any) -> Any:
        kind = self._open.pop()
        output = result[0] if isinstance(result, tuple) and result else result
        if not kind[1] or not isinstance(output, Tensor) or not output.is_floating_point():
            return None
        inside = frozenset(self._open) - {kind}
        self.seen.append(GivenValues(kind, output.detach().clone(), output.requires_grad, inside))
        if kind != self._shift or not self._is_asked(output):
            return None
        moved = output + self._much
        return (moved, *result[1:]) if isinstance(result, tuple) else moved

    def _is_asked(self, output: Tensor) -> bool:
        """Of an output that was noted as the last one of its kind."""
        if self._call is None:
            return not output.requires_grad
        return sum(one.kind == self._shift for one in self.seen) - 1 == self._call


def _kind_of(module: nn.Module) -> Kind:
    """Networks of one kind may be copies of each other."""
    return type(module), tuple(one.shape for one in module.parameters())


def target_kinds(seen: list[GivenValues]) -> list[Kind]:
    """The kinds that give values without a graph, and others with one; not the parts of these."""
    trained = {one.kind for one in seen if one.graphed}
    alone = dict.fromkeys(one.kind for one in seen if not one.graphed and one.kind in trained)
    parts = {one.kind for one in seen if not one.graphed and one.inside & alone.keys()}
    return [kind for kind in alone if kind not in parts]
