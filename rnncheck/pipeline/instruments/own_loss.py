"""A loss that is a function of the user's: it returns what it computed, or trains on it itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from types import FunctionType
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from rnncheck.errors import StageError
from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.pipeline.copying.restoring import Restored
from rnncheck.pipeline.guard.indices import RangesKept
from rnncheck.pipeline.placing import accelerator

LossCall = Callable[..., Any]


class OwnLoss:
    """``function`` as a loss: called on a batch, it gives a dict of losses and leaves no trace.

    ``given`` are its other arguments by name, ``batch`` is the name of the one that gets the batch
    (empty: the first positional one). Where the function calls ``backward`` itself, the loss is
    what that was called on; optimisers take no step meanwhile, so that the graph stays what it
    was. Where ``time_first``, batches ``[B, T]`` are handed over as ``[T, B]``.
    """

    time_first = False
    backwards = 0  # how often the last call reached one, on other losses than before

    def __init__(self, function: LossCall, given: Mapping[str, Any], batch: str = "") -> None:
        self.function, self.given, self.batch = function, dict(given), batch

    def __call__(self, td: TensorDictBase) -> dict[str, Tensor]:
        """The losses of the batch ``td``."""
        ranges = nullcontext() if accelerator() is None else RangesKept()
        with Restored(self.function, self.given), TrainStep() as step, ranges:
            result = self._called(td)
        # Epochs give the same loss again, as no optimiser steps between them.
        self.backwards = len({float(one.detach()) for one in step.losses})
        if step.losses:
            return {"loss": torch.stack(step.losses).sum()}
        return losses_in(result)

    def held_parts(self) -> Iterator[tuple[str, Any]]:
        """What it can reach, under the names that the user knows."""
        yield "", self.function
        yield from self.given.items()

    def of_rows(self, rows: int, steps: int = 0, *, states: bool = True) -> str:
        """What it is given beside the batch, or reads by name, that has a number for each of its
        rows or of their ``steps``, by name; the ``states`` that its networks hold as well."""
        function, given = self.function, dict(self.given)
        while isinstance(function, functools.partial):
            given |= {**{str(n): one for n, one in enumerate(function.args)}, **function.keywords}
            function = next((one for one in function.args if callable(one)), function.func)
        if isinstance(function, FunctionType):
            read = function.__code__.co_names
            held = {
                name: function.__globals__[name] for name in read if name in function.__globals__
            }
            given |= held | (function.__kwdefaults__ or {})
        beside = (name for name, one in given.items() if _is_of_rows(one, rows, steps))
        found = self.states_of_rows(rows) if states else iter(())
        return next(beside, "") or next((f"{type(p).__name__}.{name}" for p, name in found), "")

    def states_of_rows(self, rows: int) -> Iterator[tuple[nn.Module, str]]:
        """The states that its networks hold themselves, with a dimension for the rows."""
        held = (part for _, one in held_modules(self) for part in all_modules(one))
        for part in dict.fromkeys(held) if rows > 1 else ():
            for name, value in list(vars(part).items()):
                several = value if isinstance(value, (tuple, list)) else (value,)
                if any(isinstance(one, Tensor) and rows in one.shape[:-1] for one in several):
                    yield part, name

    def reorder_states(self, order: Tensor) -> None:
        """Put the rows of these states in the ``order`` in which those of a batch are put."""

        def turned(one: Any) -> Any:
            if not isinstance(one, Tensor) or len(order) not in one.shape[:-1]:
                return one
            last_of_all = one.ndim - 2 if one.shape[-2] == len(order) else 0
            return one.index_select(last_of_all, order.to(one.device))

        for part, name in self.states_of_rows(len(order)):
            value = getattr(part, name)
            several = isinstance(value, (tuple, list))
            setattr(part, name, type(value)(map(turned, value)) if several else turned(value))

    @property
    def in_place(self) -> bool:
        """Whether it takes steps by where they lie in the batch, as those of each episode of a
        list: in another order they would be others."""
        function = self.function
        while isinstance(function, functools.partial) and not hasattr(function, "in_place"):
            function = next((one for one in function.args if callable(one)), function.func)
        return bool(getattr(function, "in_place", False))

    def _called(self, td: TensorDictBase) -> Any:
        td = td.transpose(0, 1).contiguous() if self.time_first else td
        if self.batch:
            return self.function(**{self.batch: td}, **self.given)
        return self.function(td, **self.given)


def _is_of_rows(value: Any, rows: int, steps: int) -> bool:
    """Whether it may say something of each row, such as whether it is an expert's, or of each of
    their steps."""
    if not isinstance(value, (Tensor, np.ndarray)) or isinstance(value, nn.Parameter) or rows < 2:
        return False
    return tuple(value.shape) in ((rows,), (rows, steps), (rows, steps, 1))


class OwnLosses(OwnLoss):
    """Several losses of one batch, each with optimisers or a ``backward`` of its own."""

    def __init__(self, losses: Mapping[str, OwnLoss]) -> None:
        self._losses_by_name = dict(losses)

    @property
    def in_place(self) -> bool:
        """Whether one of them does."""
        return any(one.in_place for one in self._losses_by_name.values())

    def __call__(self, td: TensorDictBase) -> dict[str, Tensor]:
        """All of them, under names that begin with ``loss``."""
        found = {
            f"loss of {name}{part.removeprefix('loss')}": value
            for name, one in self._losses_by_name.items()
            for part, value in one(td.clone()).items()
        }
        self.backwards = sum(one.backwards for one in self._losses_by_name.values())
        return found

    def held_parts(self) -> Iterator[tuple[str, Any]]:
        """What all of them can reach."""
        for one in self._losses_by_name.values():
            yield from one.held_parts()

    def of_rows(self, rows: int, steps: int = 0, *, states: bool = True) -> str:
        """The first such thing that one of them is given."""
        losses = self._losses_by_name.values()
        found = (one.of_rows(rows, steps, states=states) for one in losses)
        return next(filter(None, found), "")


class TrainStep:
    """While the context is open, ``backward`` is noted and keeps its graph, and no optimiser
    steps."""

    def __init__(self) -> None:
        self.losses: list[Tensor] = []
        self._held: list[tuple[Tensor, Tensor]] = []

    def __enter__(self) -> TrainStep:
        self._backward = torch.autograd.backward
        torch.autograd.backward = self._noting
        self._handles = [
            register_optimizer_step_pre_hook(self._hold),
            register_optimizer_step_post_hook(self._give_back),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        torch.autograd.backward = self._backward
        for handle in self._handles:
            handle.remove()

    def _noting(self, tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        weights = [grad_tensors] if isinstance(grad_tensors, Tensor) else list(grad_tensors or ())
        weights += [None] * (len(listed) - len(weights))
        for one, weight in zip(listed, weights, strict=True):
            self.losses.append((one if weight is None else one * weight).sum())
        names = ("retain_graph", "create_graph", "grad_variables", "inputs")
        kwargs |= dict(zip(names, args, strict=False)) | {"retain_graph": True}
        self._backward(tensors, grad_tensors, **kwargs)

    def _hold(self, optimiser: Optimizer, *_: Any) -> None:
        """A parameter without a gradient is left alone by every optimiser of torch."""
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        self._held = [(p, p.grad) for p in parameters if p.grad is not None]
        for parameter, _grad in self._held:
            parameter.grad = None

    def _give_back(self, *_: Any) -> None:
        for parameter, grad in self._held:
            parameter.grad = grad
        self._held.clear()


def losses_in(result: Any) -> dict[str, Tensor]:
    """The losses in what a function returned, under names that begin with ``loss``.

    A tensor is one. Of a mapping those are losses whose name begins with ``loss``, or else ends
    with it; of a tuple its members, where all are numbers with a gradient, else the first that has
    one, as of ``(batch, loss)``. One that another is made of is not counted twice.
    """
    if isinstance(result, Tensor):
        return {"loss": result}
    if isinstance(result, (TensorDictBase, Mapping)):
        found = {str(k): v for k, v in result.items() if isinstance(v, Tensor)}
        named = {k: v for k, v in found.items() if k.startswith("loss")}
        named = named or {f"loss {k}": v for k, v in found.items() if k.lower().endswith("loss")}
        if named:
            return _outermost(named)
    if isinstance(result, (tuple, list)) and result:
        if all(map(is_number_with_graph, result)):
            return _outermost({f"loss {n}": value for n, value in enumerate(result)})
        return _first_with_graph(result)
    raise StageError("loss", f"the loss gave {_said(result)}, and no backward was called in it")


def _first_with_graph(results: Sequence[Any]) -> dict[str, Tensor]:
    """The losses in the first of several results that has such with a graph."""
    for result in results:
        with suppress(StageError):
            found = losses_in(result)
            if any(value.requires_grad for value in found.values()):
                return found
    return losses_in(results[0])


def _outermost(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without those that another one is made of, and those that only tell a number."""
    live = {k: v for k, v in named.items() if v.requires_grad}
    inside = {
        name
        for name, value in live.items()
        for other, whole in live.items()
        if other != name and _is_made_of(whole, value)
    }
    return {k: v for k, v in (live or named).items() if k not in inside}


def _is_made_of(whole: Tensor, part: Tensor) -> bool:
    if whole is part or part.grad_fn is None:
        return False
    (grad,) = torch.autograd.grad(whole.sum(), [part], retain_graph=True, allow_unused=True)
    return grad is not None


def is_number_with_graph(value: Any) -> bool:
    """Whether it may be a loss beside others."""
    return isinstance(value, Tensor) and value.numel() == 1 and value.requires_grad


def _said(result: Any) -> str:
    if isinstance(result, (TensorDictBase, Mapping)):
        names: Iterable[str] = [str(key) for key, _ in result.items()]
        return "the entries " + (", ".join(names) or "(none)")
    return "None" if result is None else f"an object of type {type(result).__name__}"
