"""Traces of a scan's step with its backward pass, kept for the next call that would make the same.

torch's scan, run eagerly, traces its step anew at every differentiated call, which costs hundreds
of times what the call itself does; a verification makes hundreds of such calls, on copies of the
same modules. The trace is a function of the step's graph and of what the tensors are like, not of
their values, so that one is as good as the next. Whatever else a trace might depend on is not kept:
a graph that holds tensors or other graphs, tensors of other kinds, any mode that sees operations.

The schema that says what the step writes is traced at every differentiated call too, and the step
of the backward pass at every one of those: they are kept in the same way (``scan_backward``).
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

from rnncheck.pipeline.backends.overlooking import unseen_by_overlookers
from rnncheck.pipeline.backends.scan_backward import backward_traces_kept
from rnncheck.pipeline.backends.trace_keys import trace_key

_SCAN = "torch._higher_order_ops.scan"
_PARTITIONER = "HopGraphMinCutPartitioner"
_MAKES = "create_partitioned_graph"
_OPERATOR = "ScanOp"
_DESCRIBES = "gen_schema"
_TRACES = "materialize_as_graph"
_RUNS = "_maybe_compile_and_run_fn"
_GRAPHS = ("fw_gm", "bw_gm")  # of what is made: the caller rewrites them

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
        module = _scans()
        traced = getattr(module, _TRACES, None)
        if isinstance(traced, FunctionType):
            scope.enter_context(
                _replaced(
                    module, _TRACES, traced, unseen_by_overlookers(backward_traces_kept(traced))
                )
            )
        run = getattr(module, _RUNS, None)
        if isinstance(run, FunctionType):
            scope.enter_context(_replaced(module, _RUNS, run, unseen_by_overlookers(run)))
        yield


def _scans() -> Any:
    """The module of torch's scan; None where there is none."""
    try:
        return importlib.import_module(_SCAN)
    except ImportError:
        return None


def _found(owner: str, name: str) -> tuple[Any, Any]:
    """A class of scan's and what it has under ``name``; private, so that a torch without one gives
    None."""
    found = getattr(_scans(), owner, None)
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
        key = trace_key(step, given, options)
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
        key = trace_key(step, given, {"init": len(init), "xs": len(xs)})
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
