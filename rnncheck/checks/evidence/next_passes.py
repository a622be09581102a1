"""Passes of torch's recurrent layers inside a loss over what is observed next, held against the
pass over the steps: with the same weights and the right states one is the other, a step on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, copied, loss_of, run_loss
from rnncheck.checks.evidence.module_copies import is_copy
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.difference import bits_differ, features, gap
from rnncheck.pipeline.instruments.vmap import is_batched
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.placing import on_cpu

Place = tuple[int, int]  # row and step
Run = Callable[[TensorDictBase], object]
_TURNS = 4  # passes that are called by turns, step by step: chosen, twice a pass and its next one


@dataclass(frozen=True)
class NextPass:
    """What a layer gives over the next steps against what it gives over the steps, a step on:
    ``gaps`` and the steps that count ``[rows, steps]``. ``from_zero``: both begin with no state,
    whatever the batch has. ``drops``: this one does, and the pass over the steps does not."""

    name: str
    gaps: Tensor
    mask: Tensor
    scale: float
    from_zero: bool
    drops: bool = False


@dataclass(frozen=True)
class _Call:
    """Of a layer: what it was given and gave, ``[batch, steps, ...]``, and the numbers of the state
    that it began with, none of zeros."""

    layer: nn.Module
    x: Tensor
    y: Tensor
    state: Tensor
    chained: bool = True  # a step goes on from the one before


def next_passes(evidence: Evidence, sample: Sample, run: Run | None = None) -> list[NextPass]:
    """Every pass over the next steps of a layer that runs over the steps as well, or one with the
    same weights; of the loss, or of what ``run`` does with the batch."""
    rows, steps = sample.valid.shape
    if steps < 2:
        return []
    at = _marked(sample, (rows // 2, steps // 2), (rows // 2, 0))  # a row's middle and beginning
    run = run or _loss(evidence, sample)
    base = _passes(run, sample, sample.td)
    if not base:
        return []
    by_root, by_next = (
        _moved(evidence, sample, run, base, at, after=after) for after in (False, True)
    )
    own = [(one, laid) for one, moved in by_root if (laid := _laid(one, moved, at))]
    following = [(one, laid) for one, moved in by_next if (laid := _laid(one, moved, at))]
    own += [(one, [one.y]) for one, moved in by_next if _is_behind(moved, at)]
    for one, moved in by_root:
        if _is_longer(moved, at):
            own.append((one, [one.y[:, :-1]]))
            following.append((one, [one.y[:, 1:]]))
    following += [(one, [one.y]) for one, moved in by_root if _is_ahead(moved, at)]
    for one, _ in following:  # the first step and all next ones, by itself
        if one.y.shape[1] == steps + 1 and not any(one is other for other, _ in own):
            own.append((one, [one.y[:, :-1]]))
    found = list[NextPass]()
    begun = _begun_with_theirs(evidence, sample, run, base) if following else set()
    for one, after in following:
        mine = next((pair for pair in own if is_copy(one.layer, pair[0].layer)), None)
        if mine is not None:
            told = _compared(sample, one, after[0], mine[1][0])
            both = told.from_zero and not {id(one), id(mine[0])} & begun
            drops = told.from_zero and bool(len(mine[0].state))
            found.append(replace(told, from_zero=both, drops=drops))
    return found


def twin_passes(evidence: Evidence, sample: Sample) -> Iterator[NextPass]:
    """Passes over the same steps with the same weights, of which one gives the values of the steps
    that the other's follow, as a target network does: they differ by the state alone that they
    begin with, such as what a burn-in made."""
    rows, steps = sample.valid.shape
    at = (rows // 2, steps // 2)
    run = _loss(evidence, sample)
    base = _passes(run, sample, sample.td)
    here = _marked(sample, at)
    moved = _moved(evidence, sample, run, base, here, after=False) if len(base) > 1 else []
    laid = [
        (one, begin) for one, where in moved if (begin := _begin(where, sample, at)) is not None
    ]
    for (one, begin), (other, _) in itertools.combinations(laid, 2):
        if one.x.shape != other.x.shape or not is_copy(one.layer, other.layer):
            continue
        alike = (one.x == other.x).all(-1).cumprod(1).bool()  # what comes behind moves no output
        count = min(one.x.shape[1], steps - begin)
        gaps, mask = torch.zeros(sample.valid.shape), torch.zeros_like(sample.valid)
        told = slice(begin, begin + count)
        mask[:, told] = sample.valid[:, told] & alike[:, :count]
        gaps[:, told] = gap(one.y, other.y).amax(-1)[:, :count]
        zero = not len(one.state) and not len(other.state)
        name, scale = f"output of {type(one.layer).__name__}", max(float(one.y.abs().max()), 1e-6)
        yield NextPass(name, gaps * mask, mask, scale, zero)


def _begin(moved: Tensor, sample: Sample, at: Place) -> int | None:
    """The step that a pass over all rows begins with, told by where one step moves it; None where
    that is not in its row alone."""
    places = moved.nonzero().tolist()
    if len(places) != 1 or moved.ndim != 2 or moved.shape[0] != sample.valid.shape[0]:
        return None
    row, step = places[0]
    ahead = at[1] - step
    return ahead if row == at[0] and ahead >= 0 and moved.shape[1] > 1 else None


def _begun_with_theirs(evidence: Evidence, sample: Sample, run: Run, base: list[_Call]) -> set[int]:
    """The passes, by id, that begin with what the batch has as the state of its first step, which
    may be zero: with another there they begin with another."""
    mask = torch.zeros_like(sample.valid)
    mask[:, 0] = True
    keys = [key for key in evidence.policy.carry if key in tensor_keys(sample.rows)]
    others = _passes(run, sample, changed_batch(sample, mask, keys)) if keys else []
    if len(others) != len(base):
        return set()
    return {id(one) for one, other in zip(base, others, strict=True) if len(other.state)}


def _compared(sample: Sample, one: _Call, after: Tensor, own: Tensor) -> NextPass:
    gaps, mask = torch.zeros(sample.valid.shape), torch.zeros_like(sample.valid)
    gaps[:, :-1] = gap(after[:, :-1], own[:, 1:]).amax(-1)
    done = sample.rows.get(("next", "done"), None)
    over = torch.zeros_like(mask) if done is None else done.reshape(*mask.shape, -1).any(-1)
    mask[:, :-1] = sample.follows[:, 1:] & ~over[:, :-1]
    name = f"output of {type(one.layer).__name__}"
    scale = max(float(own.abs().max()), 1e-6)
    return NextPass(name, gaps * mask, mask, scale, not len(one.state) and one.chained)


def _moved(
    evidence: Evidence,
    sample: Sample,
    run: Run,
    base: list[_Call],
    at: Tensor,
    *,
    after: bool,
) -> list[tuple[_Call, Tensor]]:
    """Each pass with where what it is given moves with the observations ``at`` ``[rows, steps]``;
    none where the loss makes other passes then."""
    keys = [key for key in observed(evidence, sample) if (key[0] == "next") is after]
    others = _passes(run, sample, changed_batch(sample, at, keys)) if keys else []
    if [one.x.shape for one in others] != [one.x.shape for one in base]:
        return []
    pairs = zip(base, others, strict=True)
    return [(one, features(bits_differ(one.x, other.x)).any(-1)) for one, other in pairs]


def _marked(sample: Sample, *places: Place) -> Tensor:
    mask = torch.zeros_like(sample.valid)
    for place in places:
        mask[place] = True
    return mask


def _laid(one: _Call, moved: Tensor, at: Tensor) -> list[Tensor]:
    """What it gave as ``[rows, steps, ...]``, in the order in which those steps alone move it;
    empty where there is none."""
    for order in _orders(moved, *at.shape):
        if torch.equal(order(moved), at):
            return [order(one.y)]
    return []


def _is_longer(moved: Tensor, at: Tensor) -> bool:
    """Whether it is one pass over the steps and what the last of them showed."""
    return torch.equal(moved, nn.functional.pad(at, (0, 1)))


def _is_behind(moved: Tensor, at: Tensor) -> bool:
    """Whether it is the pass over the steps, each shown as what the one before it observed next."""
    return torch.equal(moved, nn.functional.pad(at, (1, 0))[:, :-1])


def _is_ahead(moved: Tensor, at: Tensor) -> bool:
    """Whether it is a pass over all steps but the first, and what the last of them showed."""
    return torch.equal(moved, nn.functional.pad(at, (0, 1))[:, 1:])


def _orders(moved: Tensor, rows: int, steps: int) -> Iterator[Any]:
    """Ways to lay a pass out in rows and steps."""
    if tuple(moved.shape) == (rows, steps):
        yield lambda value: value
    if tuple(moved.shape) == (rows, steps + 1):  # the first step, and all next ones
        yield lambda value: value[:, 1:]
    if tuple(moved.shape) == (rows * steps, 1):
        yield lambda value: value.reshape(rows, steps, *value.shape[2:])
        yield lambda value: value.reshape(steps, rows, *value.shape[2:]).transpose(0, 1)


def _loss(evidence: Evidence, sample: Sample) -> Run:
    def run(td: TensorDictBase) -> None:
        run_loss(evidence, sample, td, loss=copied(loss_of(evidence)), per_element=False)

    return run


def _passes(run: Run, sample: Sample, td: TensorDictBase) -> list[_Call]:
    """The calls, those of one step in a row taken together as a pass over the steps."""
    with _Calls() as noted:
        run(td)
    rows, steps = sample.valid.shape
    found = [one for one in noted.calls if one.x.shape[1] > 1 or len(one.x) == rows * steps]
    single = [one for one in noted.calls if one.x.shape[1] == 1 and len(one.x) % rows == 0]
    for layer in dict.fromkeys(one.layer for one in single if rows * steps != rows):
        alike = [one for one in single if one.layer is layer and len(one.x) != rows * steps]
        for mine in _grouped(alike, steps):
            x, y = (
                torch.cat([getattr(one, name).reshape(rows, 1, -1) for one in mine], 1)
                for name in "xy"
            )
            found.append(_Call(layer, x, y, *_begun_with(mine)))
    return found


def _begun_with(calls: list[_Call]) -> tuple[Tensor, bool]:
    """The state of the first of them, and whether one hands its own on to the next; where none
    does, all are begun with others, and the first that is not zero is what they begin with."""
    chained = any(
        len(one.state) and bool((one.state[: before.y.numel()] == before.y.flatten()).any())
        for before, one in itertools.pairwise(calls)
    )
    states = (one.state for one in calls if len(one.state))
    return (calls[0].state if chained else next(states, calls[0].state)), chained


def _grouped(calls: list[_Call], steps: int) -> Iterator[list[_Call]]:
    """Those that may be a pass: one step after the other, to the observation behind the last one
    too, or by turns with other passes."""
    for length in (steps, steps + 1):
        passes, rest = divmod(len(calls), length)
        if rest or not passes or any(one.x.shape != calls[0].x.shape for one in calls):
            continue
        for begin in range(0, len(calls), length):
            yield calls[begin : begin + length]
        for first in range(passes if 1 < passes <= _TURNS else 0):
            yield calls[first::passes]


class _Calls:
    """Notes the calls of recurrent layers while the context is open."""

    def __init__(self) -> None:
        self.calls = list[_Call]()

    def __enter__(self) -> _Calls:
        self._handle = register_module_forward_hook(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _called(self, module: nn.Module, args: Any, result: Any) -> None:
        if not args or not isinstance(args[0], Tensor) or is_batched(args[0]):
            return
        state = args[1] if len(args) > 1 else None
        parts = [on_cpu(one.detach()).flatten() for one in _parts(state)]
        held = torch.cat(parts) if parts else torch.empty(0)
        held = held if bool(held.any()) else held[:0]
        if isinstance(module, nn.RNNCellBase):
            given = result[0] if isinstance(result, tuple) else result
            both = (on_cpu(one.detach()) for one in (args[0], given))
            x, y = (one.reshape(-1, 1, one.shape[-1]) for one in both)
            self.calls.append(_Call(module, x, y, held, chained=False))
        elif isinstance(module, nn.RNNBase) and not module.bidirectional:
            x, y = (_rows_first(module, on_cpu(one.detach())) for one in (args[0], result[0]))
            self.calls.append(_Call(module, x, y, held, chained=x.shape[1] > 1))


def _parts(state: Any) -> list[Tensor]:
    """Of an LSTM's state both."""
    both = state if isinstance(state, tuple) else (state,)
    return [one for one in both if isinstance(one, Tensor)]


def _rows_first(module: nn.RNNBase, value: Tensor) -> Tensor:
    if value.ndim == 2:
        return value.unsqueeze(0)
    return value if module.batch_first else value.transpose(0, 1)
