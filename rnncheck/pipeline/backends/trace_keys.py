"""What a trace of a scan depends on: the graph of its step, and what the tensors are like."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

_SELF_CONTAINED = {"placeholder", "call_function", "call_method", "output"}


def trace_key(step: Any, given: Sequence[Any], options: Mapping[str, Hashable]) -> Hashable | None:
    """All that the trace depends on; None where that cannot be told."""
    if not is_self_contained(step) or _is_watched():
        return None
    tensors = [one for one in given if isinstance(one, Tensor)]
    if any(type(one) not in (Tensor, nn.Parameter, int, float, bool) for one in given):
        return None
    calls = tuple(node.target for node in step.graph.nodes if node.op.startswith("call"))
    kinds = sorted({one.device.type for one in tensors})
    settings = (torch.is_grad_enabled(), torch.get_default_dtype(), *map(_autocast, kinds))
    return step.code, calls, tuple(map(_likeness, given)), settings, tuple(sorted(options.items()))


def is_self_contained(step: Any) -> bool:
    """Whether it is a graph that holds neither tensors nor other graphs."""
    graph = isinstance(step, torch.fx.GraphModule)
    return graph and all(node.op in _SELF_CONTAINED for node in step.graph.nodes)


def _is_watched() -> bool:
    """Something besides the operations' own kernels sees what is run: a mode, vmap, a compiler."""
    mode = _get_current_dispatch_mode() is not None or torch._C._len_torch_function_stack() > 0
    inside = torch._C._functorch.peek_interpreter_stack() is not None
    return mode or inside or torch._guards.active_fake_mode() is not None


def _autocast(kind: str) -> Hashable:
    return torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)


def _likeness(one: Any) -> Hashable:
    """What a trace sees of an argument: a tensor's layout without its values."""
    if not isinstance(one, Tensor):
        return type(one), one
    return tuple(one.shape), one.stride(), one.dtype, str(one.device), one.requires_grad
