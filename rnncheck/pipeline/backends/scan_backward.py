"""Traces of the step of a scan's backward pass, which torch makes anew at every backward call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from torch import fx

from rnncheck.pipeline.backends.trace_keys import is_self_contained, trace_key

Trace = Callable[..., Any]
_GRAPH = "hop_partitioned_graph"
# What the step closes over, beside the object with the graph: how its arguments are laid out.
_LAYOUT = ("fw_policy", "flat_spec", "additional_inputs_tensor_masks")


def backward_traces_kept(trace: Trace) -> Trace:
    """torch's ``materialize_as_graph``, which makes no trace of such a step twice."""
    known: dict[Hashable, fx.GraphModule] = {}

    def traced(step: Any, given: tuple[Any, ...], *args: Any, **options: Any) -> Any:
        key = None if args or options else _key(step, given)
        if key is None:
            return trace(step, given, *args, **options)
        if key in known:
            step(*given)  # it notes in which form it gives its gradients
            return known[key]
        made = trace(step, given)
        if is_self_contained(made):
            known[key] = made
        return made

    return traced


def _key(step: Any, given: Sequence[Any]) -> Hashable | None:
    """All that the trace depends on; None where that cannot be told, as in another torch."""
    if not inspect.isfunction(step):
        return None
    held = inspect.getclosurevars(step).nonlocals
    owner = held.get("self")
    graph = getattr(getattr(owner, _GRAPH, None), "bw_gm", None)
    if graph is None or any(name not in held for name in _LAYOUT):
        return None
    counts = tuple(len(getattr(owner, name)) for name in ("init", "xs", "additional_inputs"))
    layout = {name: str(held[name]) for name in _LAYOUT}
    return trace_key(graph, given, {**layout, "counts": counts})
