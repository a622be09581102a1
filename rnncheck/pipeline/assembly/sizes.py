"""Sizes that a spec leaves to be inferred: from the tensors a module reads, or from the env's
actions."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from rnncheck.pipeline.assembly.components import accepts

# argument -> the input's dimension that it is; ConvNet and LazyX find theirs by themselves
DIMENSIONS = {"input_size": -1, "in_features": -1, "in_channels": -3, "normalized_shape": -1}
WRAPS_LAYER = ("lstm", "gru")  # a ready-made layer brings its own sizes


def inferred(target: Any, values: dict[str, Any], inputs: list[Tensor]) -> dict[str, int]:
    """The size arguments of ``target`` that are neither given nor need to be."""
    if not inputs or any(name in values for name in WRAPS_LAYER) or _finds_its_own(target):
        return {}
    takes = set(accepts(target).names)
    wanted = [n for n in DIMENSIONS if n in takes and values.get(n, "auto") == "auto"]
    return {name: _size(inputs, DIMENSIONS[name]) for name in wanted}


def _finds_its_own(target: Any) -> bool:
    from torchrl.modules import ConvNet

    return isinstance(target, type) and issubclass(target, (ConvNet, nn.Bilinear))


def _size(inputs: list[Tensor], dimension: int) -> int:
    """Several inputs are joined along the last dimension, as MLP does."""
    able = [tensor for tensor in inputs if tensor.ndim >= -dimension]
    return sum(tensor.shape[dimension] for tensor in able) if dimension == -1 else _first(able)


def _first(inputs: list[Tensor]) -> int:
    return int(inputs[0].shape[-3]) if inputs else 1


def action_size(spec: Any) -> int:
    """How many numbers describe one action: choices of a discrete one, dimensions of a continuous
    one."""
    from torchrl.data import Categorical, MultiCategorical, OneHot

    if isinstance(spec, MultiCategorical):
        return int(spec.nvec.sum())
    if isinstance(spec, (OneHot, Categorical)):
        return int(spec.space.n)
    return math.prod(spec.shape) if spec.shape else 1


def is_discrete(spec: Any) -> bool:
    """Whether the action is a choice."""
    return str(getattr(spec, "domain", "")) == "discrete"
