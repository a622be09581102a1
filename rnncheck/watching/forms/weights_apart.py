"""Weights of a network that a script keeps apart from it, as those of a target are in a dict: they
hold nothing of steps, whatever their sizes are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.watching.forms.structures import leaves_in

_Shapes = dict[str, tuple[int, ...]]
_FEWEST = 2  # weights of a network: one tensor under one name may be anything


@dataclass(frozen=True)
class NetworkShapes:
    """The shapes of a network's weights by their names, and those of its buffers."""

    weights: _Shapes
    buffers: _Shapes

    def are_of(self, held: _Shapes) -> bool:
        """Whether there is one for each of the weights, and nothing but buffers beside them."""
        whole = self.weights | self.buffers
        return self.weights.keys() <= held.keys() and held.items() <= whole.items()


def weight_shapes_in(values: Iterable[Any]) -> list[NetworkShapes]:
    """Those of the networks that the values hold."""
    modules = {id(one): one for value in values for _, one in held_modules(value)}
    return [_shapes(one) for one in modules.values()]


def _shapes(module: nn.Module) -> NetworkShapes:
    weights, buffers = module.named_parameters(), module.named_buffers()
    return NetworkShapes(*({name: tuple(p.shape) for name, p in one} for one in (weights, buffers)))


def are_weights(value: Any, networks: Iterable[NetworkShapes]) -> bool:
    """Whether it is a mapping with a tensor for each of the weights of one of the networks, by its
    name and in its shape."""
    if not isinstance(value, Mapping) or len(value) < _FEWEST:
        return False
    held = {".".join(path): one for path, one in leaves_in(value)}
    if not all(isinstance(one, Tensor) for one in held.values()):
        return False
    shapes = {name: tuple(one.shape) for name, one in held.items()}
    return any(one.are_of(shapes) for one in networks)
