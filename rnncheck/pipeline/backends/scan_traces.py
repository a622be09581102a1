"""Traces of a scan's step with its backward pass, kept for the next call that would make the same.

torch's scan, run eagerly, traces its step anew at every differentiated call, which costs hundreds
of times what the call itself does; a verification makes hundreds of such calls, on copies of the
same modules. The trace is a function of the step's graph and of what the tensors are like, not of
their values, so that one is as good as the next. Whatever else a trace might depend on is not kept:
a graph that holds tensors or other graphs, tensors of other kinds, any mode that sees operations.

The schema that says what the step writes is traced at every differentiated call too, and is kept in
the same way.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

_SCAN = "torch._higher_order_ops.scan"
_PARTITIONER = "HopGraphMinCutPartitioner"
_MAKES = "create_partitioned_graph"
_OPERATOR = "ScanOp"
_DESCRIBES = "gen_schema"
_GRAPHS = ("fw_gm", "bw_gm")  # of what is made: the caller rewrites them
_SELF_CONTAINED = {"placeholder", "call_function", "call_method", "output"}

Trace = Callable[..., Any]


@contextmanager
def scan_traces_kept() -> Iterator[None]:
    """Inside the context no trace of a scan is made twice; a torch without this trace is left as it
    is."""
    with ExitStack() as scope:
        partitioner, made = _found(_PARTITIONER, _MAKES)
        if isinstance(made, staticmethod):
            kept = staticmethod(_kept(made.__func__))
            scope.enter_context(_replaced(partitioner, _MAKES, made, kept))
        operator, described = _found(_OPERATOR, _DESCRIBES)
        if isinstance(described, FunctionType):
            schemas = _schemas_kept(described)
            scope.enter_context(_replaced(operator, _DESCRIBES, described, schemas))
        yield


def _found(owner: str, name: str) -> tuple[Any, Any]:
    """A class of scan's and what it has under ``name``; private, so that a torch without one gives
    None."""
    try:
        found = getattr(importlib.import_module(_SCAN), owner, None)
    except ImportError:
        return None, None
    return found, getattr(found, "__dict__", {}).get(name)


@contextmanager
def _replaced(owner: Any, name: str, original: Any, other: Any) -> Iterator[None]:
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _kept(make: Trace) -> Trace:
    known: dict[Hashable, Any] = {}

    def partitioned(step: Any, given: tuple[Any, ...], **options: Any) -> Any:
        key = _key(step, given, options)
        if key is None:
            return make(step, given, **options)
        if key not in known:
            made = make(step, given, **options)
            if not all(hasattr(made, name) for name in _GRAPHS):  # a torch that makes others
                return made
            known[key] = made
        return _copied(known[key])

    return partitioned


def _schemas_kept(describe: Trace) -> Trace:
    known: dict[Hashable, Any] = {}

    def described(op: Any, step: Any, init: Any, xs: Any, additional: Any) -> Any:
        given = (*init, *xs, *additional)
        key = _key(step, given, {"init": len(init), "xs": len(xs)})
        if key is None:
            return describe(op, step, init, xs, additional)
        if key not in known:
            known[key] = describe(op, step, init, xs, additional)
        return known[key]

    return described


def _copied(trace: Any) -> Any:
    made = copy.copy(trace)
    for name in _GRAPHS:
        setattr(made, name, copy.deepcopy(getattr(trace, name)))
    return made


def _key(step: Any, given: tuple[Any, ...], options: dict[str, Any]) -> Hashable | None:
    """All that the trace depends on; None where that cannot be told."""
    if not isinstance(step, torch.fx.GraphModule) or _is_watched():
        return None
    nodes = list(step.graph.nodes)
    tensors = [one for one in given if isinstance(one, Tensor)]
    plain = all(type(one) in (Tensor, nn.Parameter, int, float, bool) for one in given)
    if not plain or any(node.op not in _SELF_CONTAINED for node in nodes):
        return None
    calls = tuple(node.target for node in nodes if node.op.startswith("call"))
    kinds = sorted({one.device.type for one in tensors})
    settings = (torch.is_grad_enabled(), torch.get_default_dtype(), *map(_autocast, kinds))
    return step.code, calls, tuple(map(_likeness, given)), settings, tuple(sorted(options.items()))


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
