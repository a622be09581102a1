"""Arithmetic of a loss in which the steps of one tensor are broadcast over those of another one,
``[20, 1]`` and ``[20]``, and whether it matters there which step a number belongs to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    float_inputs,
    loss_of,
    parameters_of,
    run_loss,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import calling_place
from rnncheck.pipeline.instruments.vmap import is_batched
from rnncheck.pipeline.keys import tensor_keys

# Arithmetic that broadcasts, and is not there to lay one thing across another as an outer product.
ARITHMETIC = {
    *("add", "radd", "sub", "rsub", "subtract", "mul", "rmul", "multiply", "div", "rdiv"),
    *("truediv", "rtruediv", "true_divide", "divide", "minimum", "maximum", "min", "max"),
    *("fmin", "fmax", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "broadcast_tensors"),
    "where",
}
STRONGER = (1.0, 10.0, 100.0)  # how much other the numbers are, until a gradient moves
FEWEST = 3  # steps: of two there is one other order
MOST = 4  # lines of one loss that are asked about: chosen, each costs up to eight calls of it
ORDERS = 3  # orders of the steps that must all give the same loss
MATTERS = 1e-2  # share of a gradient that other numbers must move, so that rounding stays below it
SAME = 3e-3  # share of that move within which two orders count as the same gradient
ROUNDING = 1e-5  # share of a gradient: sums in another order, in float32


@dataclass(frozen=True)
class Crossing:
    """One operation: ``dims`` is where each of both operands, the arguments ``at``, has the
    ``size`` steps."""

    place: Place
    at: tuple[int, int]
    shapes: tuple[torch.Size, torch.Size]
    dims: tuple[int, int]
    size: int
    values: tuple[Tensor, Tensor]

    @property
    def shorter(self) -> int:
        """The side that has fewer dimensions."""
        return int(len(self.shapes[1]) < len(self.shapes[0]))


@dataclass(frozen=True)
class Paired:
    """A line that pairs every step with every other one: the gradients of the loss are the same in
    whatever order the steps of the operand ``side`` stand there."""

    crossing: Crossing
    side: int
    moved: float  # share of what other numbers move that another order does


@dataclass
class CrossedSteps:
    """What the lines of a loss do; ``looked`` counts its operations of arithmetic."""

    looked: int = 0
    paired: list[Paired] = field(default_factory=list)


def crossed_steps(evidence: Evidence, sample: Sample) -> CrossedSteps:
    """Raises Unanswered where the loss cannot be called."""
    with _Sizes() as sizes, _Watch() as watch:
        base = _gradients(evidence, sample)
    rows, steps = sample.valid.shape
    known = {rows, rows * steps, steps, int(sample.valid.sum()), *sizes.seen}
    found = CrossedSteps(watch.looked)
    told = [one for one in watch.seen if one.size in known]
    told = _of_the_batch(evidence, sample, watch.seen, told) if told else []
    by_place = itertools.groupby(sorted(told, key=_line), key=_line)
    for group in itertools.islice((list(of) for _, of in by_place), MOST):
        if len(group) < rows * steps:  # else it is asked of every step by itself
            found.paired.extend(_paired(evidence, sample, group, base))
    return found


def _gradients(
    evidence: Evidence, sample: Sample, td: TensorDictBase | None = None
) -> dict[str, Tensor]:
    """Of each parameter by itself, so that a large part of a loss does not hide a small one."""
    loss = copied(loss_of(evidence))
    total = run_loss(evidence, sample, td, loss=loss, per_element=False).total
    named = parameters_of(loss)
    if not total.requires_grad or not named:
        return {"the loss": total.detach().double()}
    grads = torch.autograd.grad(total, [one for _, one in named], allow_unused=True)
    return {
        name: grad.detach().double().cpu()
        for (name, _), grad in zip(named, grads, strict=True)
        if grad is not None
    }


def _of_the_batch(
    evidence: Evidence, sample: Sample, seen: Sequence[Crossing], told: Sequence[Crossing]
) -> list[Crossing]:
    """Those of which the side without the last dimension is made of what the batch holds: weights
    of features and quantiles, of which there may be as many as steps, are not."""
    rows = changed_batch(
        sample, sample.valid, float_inputs(sample.rows, root=True, following=True)
    ).reshape(sample.rows.shape)
    generator = torch.Generator().manual_seed(3)
    for key in tensor_keys(rows):
        value = rows.get(key)
        if key in evidence.env.actions:
            rows.set(key, value.roll(1, 1).flip(1))
        elif value.dtype == torch.bool:
            rows.set(key, value ^ (torch.rand(value.shape, generator=generator) < 0.3))
    with _Watch() as watch:
        _gradients(evidence, sample, rows.reshape(sample.td.shape))
    if len(watch.seen) != len(seen):
        return list(told)
    moved = {
        id(one)
        for one, other in zip(seen, watch.seen, strict=True)
        if not _equal(one.values[one.shorter], other.values[one.shorter])
        or one.size == sample.valid.numel() > max(sample.valid.shape)  # nothing else has as many
    }
    return [one for one in told if id(one) in moved]


def _line(crossing: Crossing) -> tuple[str, int, int]:
    return crossing.place.path, crossing.place.line, crossing.size


def _paired(
    evidence: Evidence, sample: Sample, group: Sequence[Crossing], base: dict[str, Tensor]
) -> Iterator[Paired]:
    def gradients(side: int, order: Tensor, stronger: float) -> dict[str, Tensor]:
        with _Watch(_Change(group, side, order, stronger)):
            return _gradients(evidence, sample)

    order = torch.arange(group[0].size)
    for side, stronger in itertools.product((0, 1), STRONGER):
        other = gradients(side, order, stronger)
        telling = [name for name in base if _moves(base[name], other.get(name))]
        if not telling:
            continue
        again = (gradients(side, one, stronger) for one in _orders(order))
        largest = _largest_within((_share(base, other, one, telling) for one in again), SAME)
        if largest is not None:
            yield Paired(group[0], side, largest)
            return


def _moves(one: Tensor, other: Tensor | None) -> bool:
    if other is None or one.shape != other.shape:
        return False
    return float((other - one).norm()) > MATTERS * max(float(one.norm()), float(other.norm()))


def _share(
    base: dict[str, Tensor],
    other: dict[str, Tensor],
    again: dict[str, Tensor],
    telling: Sequence[str],
) -> float:
    """How far a gradient moves with the order, of what it moves with the numbers."""
    shares = [0.0]
    for name in telling:
        moved = float((again[name] - other[name]).norm()) - ROUNDING * float(other[name].norm())
        shares.append(moved / float((other[name] - base[name]).norm()))
    return max(shares)


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
    """Other numbers in the place of an operand, in an order of their own; ``made`` are those that
    stand there already, which may come by again, as ``loc`` of a distribution does."""

    group: Sequence[Crossing]
    side: int
    order: Tensor
    stronger: float
    made: list[Tensor] = field(default_factory=list)

    def __call__(self, value: Tensor, place: Place | None, at: int) -> Tensor | None:
        """None where it is not one of them: at their place and on their side, or the same numbers
        elsewhere."""
        if any(one.data_ptr() == value.data_ptr() for one in self.made):
            return None
        other = self._other(value, place, at)
        if other is not None:
            self.made.append(other)
        return other

    def _other(self, value: Tensor, place: Place | None, at: int) -> Tensor | None:
        first = self.group[0]
        here = place is not None and place == first.place and at == first.at[self.side]
        if not (here and value.shape == first.shapes[self.side]) and not any(
            _equal(one.values[self.side], value) for one in self.group
        ):
            return None
        dim, order = first.dims[self.side], self.order.to(value.device)
        if not value.is_floating_point():  # such as actions: those of other steps, few more often
            steps = value.movedim(dim, 0).reshape(first.size, -1)[:, 0].long().argsort()
            chosen = torch.linspace(0, 1, first.size, device=value.device).square()
            other = value.index_select(dim, steps[(chosen * (first.size - 1)).long()])
            return other.index_select(dim, order)
        held = value.detach()
        size = self.stronger * (float(held.std()) + 0.3 * float(held.abs().mean()) or 1.0)
        draws = torch.rand((2, *value.shape), generator=torch.Generator().manual_seed(5)) - 0.5
        one, other = draws.to(held)
        changed: Tensor = value * (1 + one) + size * other
        return changed.index_select(dim, order)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def crossing_of(operands: Sequence[Tensor]) -> tuple[tuple[int, int], int] | None:
    """In which dimension each of both has the steps that the other one does not have, and how many.

    None where neither is broadcast over as many entries as it has; where both have as many
    dimensions, since who writes ``[:, None]`` and ``[None]`` means all pairs; and where what stands
    ahead is of both, unless they hold the same steps: a step may have a matrix of its own.
    """
    one, other = operands
    ndim = max(one.ndim, other.ndim)
    if one.ndim == other.ndim:
        return None
    sizes = [(1,) * (ndim - each.ndim) + tuple(each.shape) for each in operands]
    mine = [at for at in range(ndim) if sizes[0][at] > 1 and sizes[1][at] == 1]
    theirs = [at for at in range(ndim) if sizes[1][at] > 1 and sizes[0][at] == 1]
    alike = one.squeeze().shape == other.squeeze().shape
    for a, b in itertools.product(mine, theirs):
        size = sizes[0][a]
        shared = any(sizes[0][at] > 1 and sizes[1][at] > 1 for at in range(max(a, b)))
        if size == sizes[1][b] and size >= FEWEST and (alike or not shared):
            return (a - ndim + one.ndim, b - ndim + other.ndim), size
    return None


class _Watch(TorchFunctionMode):
    """Notes where steps are broadcast over steps, with what stood there, and may put something else
    in its place."""

    overlooks_scans = True  # a scan's own steps stand in no line of the user's

    def __init__(self, change: _Change | None = None) -> None:
        super().__init__()
        self.looked = 0
        self.seen = list[Crossing]()
        self._change = change

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "").strip("_")
        if name in ARITHMETIC and args and isinstance(args[0], Tensor) and not is_batched(args[0]):
            self.looked += 1
            args = self._asked(args)
        return func(*args, **(kwargs or {}))

    def _asked(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        tensors = {at: one for at, one in enumerate(args[:3]) if isinstance(one, Tensor)}
        crossings = list(self._crossings(tensors))
        change = self._change
        if change is None:
            self.seen.extend(crossings)
            return args
        place = crossings[0].place if crossings else None
        others = {at: change(one, place, at) for at, one in tensors.items()}
        return tuple(one if others.get(at) is None else others[at] for at, one in enumerate(args))

    def _crossings(self, tensors: Mapping[int, Tensor]) -> Iterator[Crossing]:
        for at in itertools.combinations(tensors, 2):
            one, other = (tensors[number] for number in at)
            alone = is_batched(one) or is_batched(other) or one.data_ptr() == other.data_ptr()
            found = None if alone else crossing_of((one, other))
            if found is not None:
                values = (one.detach().clone(), other.detach().clone())
                shapes = (one.shape, other.shape)
                yield Crossing(calling_place(3), at, shapes, *found, values)


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
