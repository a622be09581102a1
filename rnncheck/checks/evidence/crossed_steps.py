"""Arithmetic of a loss in which the steps of one tensor are broadcast over those of another one,
``[20, 1]`` and ``[20]``, and whether it matters there which step a number belongs to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import calling_place
from rnncheck.pipeline.instruments.vmap import is_batched

# Arithmetic that broadcasts, and is not there to lay one thing across another as an outer product.
ARITHMETIC = {
    *("add", "radd", "sub", "rsub", "subtract", "mul", "rmul", "multiply", "div", "rdiv"),
    *("truediv", "rtruediv", "true_divide", "divide", "minimum", "maximum", "min", "max"),
    *("fmin", "fmax", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "broadcast_tensors"),
}
FEWEST = 3  # steps: of two there is one other order
MOST = 4  # lines of one loss that are asked about: chosen, each costs up to eight calls of it
ORDERS = 3  # orders of the steps that must all give the same loss
MATTERS = 1e-3  # share of the loss that other numbers must move, so that rounding stays below it
SAME = 1e-3  # share of that move within which two orders count as the same loss
ROUNDING = 3e-6  # share of the loss: sums in another order, in float32


@dataclass(frozen=True)
class Crossing:
    """One operation: ``dims`` is where each of both operands has the ``size`` steps."""

    place: Place
    shapes: tuple[torch.Size, torch.Size]
    dims: tuple[int, int]
    size: int
    values: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Paired:
    """A line that pairs every step with every other one: the loss is the same in whatever order the
    steps of the operand ``side`` stand there."""

    crossing: Crossing
    side: int
    moved: float  # how far the loss moves with the order
    bound: float


@dataclass
class CrossedSteps:
    """What the lines of a loss do; ``looked`` counts its operations of arithmetic."""

    looked: int = 0
    paired: list[Paired] = field(default_factory=list)


def crossed_steps(evidence: Evidence, sample: Sample) -> CrossedSteps:
    """Raises Unanswered where the loss cannot be called."""
    with _Sizes() as sizes, _Watch() as watch:
        total = float(run_loss(evidence, sample, per_element=False).total)
    rows, steps = sample.valid.shape
    known = {rows * steps, steps, int(sample.valid.sum()), *sizes.seen}
    found = CrossedSteps(watch.looked)
    told = [one for one in watch.seen if one.size in known]
    by_place = itertools.groupby(sorted(told, key=_line), key=_line)
    for group in itertools.islice((list(of) for _, of in by_place), MOST):
        if len(group) < rows * steps:  # else it is asked of every step by itself
            found.paired.extend(_paired(evidence, sample, group, total))
    return found


def _line(crossing: Crossing) -> tuple[str, int, int]:
    return crossing.place.path, crossing.place.line, crossing.size


def _paired(
    evidence: Evidence, sample: Sample, group: Sequence[Crossing], total: float
) -> Iterator[Paired]:
    def loss(side: int, order: Tensor) -> float:
        with _Watch(_Change(group, side, order)):
            return float(run_loss(evidence, sample, per_element=False).total)

    first = group[0]
    for side in (0, 1):
        base = torch.arange(first.size)
        other = loss(side, base)
        bound = SAME * abs(other - total) + ROUNDING * abs(other)
        if abs(other - total) > MATTERS * max(abs(total), abs(other)):
            moved = (abs(loss(side, order) - other) for order in _orders(base))
            largest = _largest_within(moved, bound)
            if largest is not None:
                yield Paired(first, side, largest, bound)
                return


def _orders(base: Tensor) -> Iterator[Tensor]:
    yield base.roll(1)
    yield base.flip(0)
    for seed in range(ORDERS - 2):
        yield base[torch.randperm(len(base), generator=torch.Generator().manual_seed(seed))]


def _largest_within(values: Iterator[float], bound: float) -> float | None:
    """The largest; None as soon as one is beyond the bound, or no number."""
    largest = 0.0
    for value in values:
        if not value <= bound:
            return None
        largest = max(largest, value)
    return largest


@dataclass(frozen=True)
class _Change:
    """Other numbers in the place of an operand, in an order of their own."""

    group: Sequence[Crossing]
    side: int
    order: Tensor

    def __call__(self, crossing: Crossing, side: int) -> Tensor | None:
        here = _line(crossing) == _line(self.group[0]) and side == self.side
        value = crossing.values[side]
        if not here and not any(_equal(one.values[self.side], value) for one in self.group):
            return None
        generator = torch.Generator().manual_seed(5)
        draw = torch.rand(crossing.size, generator=generator)
        dim = crossing.dims[side]
        order = self.order.to(value.device)
        if not value.is_floating_point():  # such as actions: those of other steps
            chosen = (draw * crossing.size).long().to(value.device)
            return value.index_select(dim, chosen).index_select(dim, order)
        shape = [-1 if at == dim else 1 for at in range(value.ndim)]
        size = float(value.std()) + 0.1 * float(value.abs().mean()) or 1.0
        noise = (size * (0.5 + draw)).to(value).reshape(shape)
        return (value + noise).index_select(dim, order)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def crossing_of(operands: Sequence[Tensor]) -> tuple[tuple[int, int], int] | None:
    """In which dimension each of both has the steps that the other one does not have, and how many;
    None where neither is broadcast over as many entries as it has, or where what stands before that
    is of both: quantiles of one step may be laid across each other."""
    one, other = operands
    ndim = max(one.ndim, other.ndim)
    sizes = [(1,) * (ndim - each.ndim) + tuple(each.shape) for each in operands]
    mine = [at for at in range(ndim) if sizes[0][at] > 1 and sizes[1][at] == 1]
    theirs = [at for at in range(ndim) if sizes[1][at] > 1 and sizes[0][at] == 1]
    for a, b in itertools.product(mine, theirs):
        size = sizes[0][a]
        shared = any(sizes[0][at] > 1 and sizes[1][at] > 1 for at in range(max(a, b)))
        if size == sizes[1][b] and size >= FEWEST and not shared:
            return (a - ndim + one.ndim, b - ndim + other.ndim), size
    return None


class _Watch(TorchFunctionMode):
    """Notes where steps are broadcast over steps, with what stood there, and may put something else
    in its place."""

    def __init__(self, change: Callable[[Crossing, int], Tensor | None] | None = None) -> None:
        super().__init__()
        self.looked = 0
        self.seen = list[Crossing]()
        self._change = change

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "").strip("_")
        if name in ARITHMETIC and len(args) > 1:
            self.looked += 1
            args = self._asked(args)
        return func(*args, **(kwargs or {}))

    def _asked(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        operands = args[:2]
        if not all(isinstance(one, Tensor) and not is_batched(one) for one in operands):
            return args
        found = crossing_of(operands)
        if found is None or operands[0].data_ptr() == operands[1].data_ptr():
            return args
        first, second = (one.detach().clone() for one in operands)
        shapes = (operands[0].shape, operands[1].shape)
        crossing = Crossing(calling_place(2), shapes, *found, (first, second))
        self.seen.append(crossing)
        if self._change is None:
            return args
        others = [self._change(crossing, side) for side in (0, 1)]
        put = (_put(one, other) for one, other in zip(operands, others, strict=True))
        return (*put, *args[2:])


def _put(value: Tensor, other: Tensor | None) -> Tensor:
    return value if other is None else other


class _Sizes:
    """How many steps the layers of the loss were given at once."""

    def __enter__(self) -> _Sizes:
        self.seen = set[int]()
        self._handle = register_module_forward_hook(self._gave)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _gave(self, module: nn.Module, _inputs: object, result: Any) -> None:
        if module._parameters and isinstance(result, Tensor) and result.ndim > 1:
            self.seen.add(result.shape[:-1].numel())
