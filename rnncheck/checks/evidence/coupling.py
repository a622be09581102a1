"""What couples the segments of a batch: a statistic of the batch, or something that runs from one
to the next.

A mean, a deviation or a sum over the samples couples all of them, in both directions and whatever
their order. A state or a sum of rewards that runs on reaches its neighbours, in one direction.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import (
    GRADIENT,
    Elements,
    Leak,
    leaks,
    paid,
    segments_of,
    without_memory,
)
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch
from rnncheck.checks.evidence.neighbour_moves import (
    SUMMED,
    moved_alike,
    moves_none_but_it,
    reached_from_behind,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.affine import moved_as_one
from rnncheck.numerics.difference import Difference, bits_differ, features, gap, locate
from rnncheck.pipeline.keys import Key

SUM_ROUNDING = SUMMED
REORDERED = 1e-4  # of the largest entry: a batch in another order is summed in another order
MOVES = 8  # changes that are laid beside each other: a statistic has two numbers, rarely four
# Over the largest move. Measured on PPO losses in float32: behind the numbers of a statistic there
# is 3e-5 of it, what runs on has 0.3 to 0.5.
NO_MOVE, CLEAR_MOVE = 1e-3, 1e-2
# Where minibatches are drawn, each has a statistic of its own, and what runs on comes behind these.
# Measured on two such losses, three minibatches each: 1e-4 of statistics, 8e-3 of what runs on.
SEVERAL, FINER = 2 * MOVES, 0.3
_TRIED = 6  # changes of a row whose steps others may be held against
FEW = 0.2  # share of the steps: a statistic of the batch changes more of them than borders have

# Of a row that moves no other. Measured on gradients of critics' losses in float32: behind a mean
# and a deviation of the row, whose own gradients move, there are four ways, and 1e-5 of the fifth;
# three critics with such numbers have five in one look of six, a memory that runs on in four.
_NUMBERS, _ROWS, _AGREE = 4, 3, 2
ROWS, SEGMENTS = "rows", "segments of a row"


@dataclass(frozen=True)
class Coupled:
    """What gives per-step entries of a batch, and what of the batch is changed to see them move.

    ``drawn``: random numbers are drawn, place by place. ``ordered``: another order of the batch may
    be asked for. ``shuffled``: which rows are in a minibatch together is drawn.
    """

    sample: Sample
    keys: list[Key]
    elements: Elements
    drawn: bool = False
    ordered: bool = True
    shuffled: bool = False


@dataclass(frozen=True)
class _Way:
    """Neighbours of one kind: ``units`` numbers them, ``halves`` parts them; ``[rows, steps]``."""

    name: str
    units: Tensor
    halves: tuple[Tensor, Tensor]
    order: Tensor | None


def real_leaks(
    evidence: Evidence, coupled: Coupled, found: list[Leak], tolerance: float
) -> list[Leak]:
    """The leaks that are no statistics of the batch, each with what it runs on between and whether
    rewards alone move it."""
    between = running_on(coupled, [leak.name for leak in found])
    if not between:
        return []
    sample = coupled.sample
    keys = [key for key in paid(evidence, sample) if key in coupled.keys]
    alone = leaks(sample, keys, coupled.elements, tolerance=tolerance)[0] if keys else []
    names = {leak.name for leak in alone}
    return [
        replace(leak, between=between[leak.name], paid=leak.name in names)
        for leak in found
        if leak.name in between
    ]


def running_on(coupled: Coupled, names: Iterable[str]) -> dict[str, str]:
    """Those of ``names`` that are no statistic of the batch, and between which neighbours they
    run. A statistic of the batch moves rows as well: what moves segments of a row and no other row
    is none. Where random numbers are drawn place by place, the batch in another order tells
    nothing: there it is told by rows alone."""
    found, left, silent = dict[str, str](), set(names), set(names)
    ways = _ways(coupled.sample) if left else []
    for way in ways:
        moving = _moving(coupled, way, left)
        if len(ways) > 1 and way.name == SEGMENTS:  # and no row moves another
            alone = silent & set(moving)
            alone = alone if coupled.drawn else _in_many_ways(coupled, way, alone)
            found |= dict.fromkeys(alone, SEGMENTS)
        silent -= set(moving)
        if coupled.shuffled and way.name == ROWS:  # rows of one minibatch have its statistic
            continue
        directed = _directed(coupled, way, moving)
        if way.name == SEGMENTS and directed - found.keys():
            new = directed - found.keys()
            directed -= moved_alike(coupled.sample, coupled.keys, coupled.elements, new)
        for name in sorted(directed):
            found.setdefault(name, way.name)
        left -= set(found)
    rounded = _rounded(coupled, silent) if silent else set[str]()
    if left - silent and any(way.name == SEGMENTS for way in ways):
        asked = coupled.sample, coupled.keys, coupled.elements, left - silent
        behind = reached_from_behind(*asked) | moves_none_but_it(*asked)
        found |= dict.fromkeys(behind, SEGMENTS)
    return {**found, **dict.fromkeys(silent - rounded, ways[-1].name)}


def _ways(sample: Sample) -> list[_Way]:
    segments, rows = segments_of(sample), sample.valid.shape[0]
    units = torch.arange(rows).unsqueeze(1).expand_as(segments)
    found = []
    if rows > 1:
        front = units < (rows + 1) // 2
        found.append(_Way(ROWS, units, (front, ~front), _rows_turned(sample)))
    count = segments.amax(1, keepdim=True) + 1
    if bool((count > 1).any()):
        front = (segments < (count + 1) // 2) & (count > 1)
        halves = front, ~front & (count > 1)
        found.append(_Way(SEGMENTS, segments, halves, _segments_turned(sample)))
    return found


_Moved = dict[str, tuple[Tensor, Tensor, Tensor]]  # before, after, and where to look


def _moving(
    coupled: Coupled, way: _Way, names: Iterable[str]
) -> dict[str, list[tuple[Tensor, Tensor, Tensor]]]:
    """By name: the entries before and after every other unit was changed, or every other pair of
    them, and where none was."""
    sample, found = coupled.sample, dict[str, list[tuple[Tensor, Tensor, Tensor]]]()
    base = coupled.elements(sample, sample.td)
    wanted = [name for name in names if name in base]
    moved = set[str]()
    kinds = [way.units] if int(way.units.max()) < 2 else [way.units, (way.units + 1) // 2]
    for touched in [(one % 2 == n) & sample.valid for one in kinds for n in (0, 1)]:
        after = coupled.elements(sample, changed_batch(sample, touched, coupled.keys))
        watch = ~touched & sample.valid
        for name in wanted:
            old, new = base[name], after.get(name)
            if new is not None and new.shape == old.shape:
                found.setdefault(name, []).append((old, new, watch))
                if bool((_steps(gap(new, old)) > SUM_ROUNDING * _scale(old))[watch].any()):
                    moved.add(name)
    return {name: pairs for name, pairs in found.items() if name in moved}


def _directed(
    coupled: Coupled, way: _Way, moving: dict[str, list[tuple[Tensor, Tensor, Tensor]]]
) -> set[str]:
    """Those that run from unit to unit."""
    if not moving:
        return set()
    # In another order others are in one minibatch: it may be drawn of slices of the rows.
    same_order = coupled.ordered and not coupled.drawn and not coupled.shuffled
    turned = same_order and way.order is not None
    least = 0.0 if turned or coupled.drawn else FEW
    asked = {
        name: pairs for name, pairs in moving.items() if name in _both_ways(coupled, way, least)
    }
    open_ = [n for n, pairs in asked.items() if not all(_as_one(*pair) for pair in pairs)]
    off = set[str]()
    if open_ and turned:
        off = _depends_on_order(coupled, way, open_)
    elif open_:
        off = set() if coupled.drawn else _one_sided(coupled, way, open_)
        off |= _richer_one_way(coupled, way, [name for name in open_ if name not in off])
    off |= moving.keys() - asked.keys()
    off &= _crossing(coupled, way) if off else off
    return off - _at_their_steps(coupled, off) if way.name == ROWS else off


def _at_their_steps(coupled: Coupled, names: set[str]) -> set[str]:
    """What the first row and the last one each move in most others, at the very steps that change
    and without any memory, as rewards do that are normalised over the rows of each step: nothing
    runs on to a next one. Of two rows such numbers may stay what they are, so that several changes
    are tried."""
    valid = coupled.sample.valid
    odd, most, left = torch.arange(valid.shape[1]) % 2 == 1, len(valid) // 2, set(names)
    for row in (0, len(valid) - 1) if left else ():
        touched, rows = torch.zeros_like(valid), dict[str, Tensor]()
        touched[row] = True
        for steps, seed in itertools.product((odd, ~odd), range(_TRIED)):
            moved = _steps_moved(coupled, touched & steps, ~touched, seed)
            left -= {name for name, one in moved.items() if bool((one & ~steps).any())}
            rows |= {name: rows.get(name, False) | one.any(1) for name, one in moved.items()}
        left &= {name for name, one in rows.items() if int(one.sum()) >= most}
    return left


def _steps_moved(coupled: Coupled, touched: Tensor, watch: Tensor, seed: int) -> dict[str, Tensor]:
    """By name which of the watched steps move with the touched ones, in the memoryless twin."""
    sample, twin = coupled.sample, without_memory(coupled.elements)
    base = twin(sample, sample.td)
    td = changed_batch(sample, touched & sample.valid, coupled.keys, seed=300 + seed)
    after = twin(sample, td)
    return {
        name: (_steps(gap(after[name], old)) > SUM_ROUNDING * _scale(old)) & watch & sample.valid
        for name, old in base.items()
        if name in after and after[name].shape == old.shape
    }


def _crossing(coupled: Coupled, way: _Way) -> set[str]:
    """What moves from the one half of the units to the other at all. Where steps of one half weigh
    nothing, such as those of an unfinished episode, a statistic reaches it from elsewhere alone."""
    found = set[str]()
    for each in _crossed(coupled, way, coupled.elements):
        for name, (old, new, watch) in each.items():
            if bool((_steps(gap(new, old)) > GRADIENT * _scale(old))[watch].any()):
                found.add(name)
    return found


def _as_one(old: Tensor, new: Tensor, watch: Tensor) -> bool:
    return moved_as_one(old, new, watch, SUM_ROUNDING)


def _crossed(coupled: Coupled, way: _Way, elements: Elements) -> list[_Moved]:
    """The entries before and after the front half of the units was changed, in the back half, and
    the reverse."""
    sample, found = coupled.sample, list[_Moved]()
    base = elements(sample, sample.td)
    for touched, watch in (way.halves, way.halves[::-1]):
        after = elements(sample, changed_batch(sample, touched & sample.valid, coupled.keys))
        same = {n: old for n, old in base.items() if n in after and after[n].shape == old.shape}
        found.append({n: (old, after[n], watch & sample.valid) for n, old in same.items()})
    return found


def _both_ways(coupled: Coupled, way: _Way, least: float) -> set[str]:
    """What changes in both directions without any memory, in more than a share of the steps; or
    tells nothing there, as the gradient at what a start puts out: there each step is one."""
    crossed = _crossed(coupled, way, without_memory(coupled.elements))
    front, back = ({n for n, one in each.items() if _share(*one) > least} for each in crossed)
    silent = (
        {name for name, (old, new, _) in each.items() if not bool(old.any() or new.any())}
        for each in crossed
    )
    return front & back | set.intersection(*silent)


def _one_sided(coupled: Coupled, way: _Way, names: list[str]) -> set[str]:
    """What is moved and scaled alike in one direction, as by a normalisation, and otherwise in the
    other."""
    front, back = _crossed(coupled, way, coupled.elements)
    both = (name for name in names if name in front and name in back)
    told = (name for name in both if _tells(*front[name]) and _tells(*back[name]))
    return {name for name in told if _as_one(*front[name]) != _as_one(*back[name])}


def _tells(old: Tensor, new: Tensor, watch: Tensor) -> bool:
    """Whether the moves are so large that they could not be taken for one line by rounding."""
    moved = float(_steps(gap(new, old))[watch].max()) if bool(watch.any()) else 0.0
    return moved > CLEAR_MOVE * _scale(old)


def _richer_one_way(coupled: Coupled, way: _Way, names: list[str]) -> set[str]:
    """What moves in more ways in one direction than in the other, over many changes: a mean and a
    deviation are two numbers in both, what runs on has one more for every place that it reaches."""
    if not names:
        return set()
    front, back = (_moves(coupled, *halves, names) for halves in (way.halves, way.halves[::-1]))
    finer = FINER if coupled.shuffled else 1.0
    return {name for name in names if _richer(front[name], back[name], finer)}


def _moves(
    coupled: Coupled, touched: Tensor, watch: Tensor, names: list[str]
) -> dict[str, list[float]]:
    """By name, the singular values of how entries move, the largest first, over the largest."""
    sample = coupled.sample
    base, found = coupled.elements(sample, sample.td), {name: list[Tensor]() for name in names}
    for seed in range(SEVERAL if coupled.shuffled else MOVES):
        td = changed_batch(sample, touched & sample.valid, coupled.keys, seed=100 + seed)
        after = coupled.elements(sample, td)
        for name in names:
            moved = (after[name].double() - base[name].double())[watch & sample.valid]
            found[name].append(moved.flatten().nan_to_num(0.0, 0.0, 0.0))
    values = {name: torch.linalg.svdvals(torch.stack(each)) for name, each in found.items()}
    return {n: (one / one[0].clamp_min(1e-300)).tolist() for n, one in values.items()}


def _richer(one: list[float], other: list[float], finer: float = 1.0) -> bool:
    """Whether one of the two ends where the other clearly goes on."""
    for less, more in ((one, other), (other, one)):
        count = sum(value > finer * NO_MOVE for value in less)
        if 0 < count < len(more) and more[count] > finer * CLEAR_MOVE:
            return True
    return False


def _in_many_ways(coupled: Coupled, way: _Way, names: set[str]) -> set[str]:
    """Those that the one half of a row moves in the other half in more ways than a statistic of the
    row, such as its mean and deviation, has numbers."""
    front, back = way.halves
    rows = (front.any(1) & back.any(1)).nonzero().flatten().tolist() if names else []
    looks = Counter[str]()
    for row in rows[:_ROWS]:
        here = torch.zeros_like(front)
        here[row] = True
        for touched, watch in ((front & here, back & here), (back & here, front & here)):
            values = _moves(coupled, touched, watch, sorted(names))
            looks.update(n for n, s in values.items() if sum(v > CLEAR_MOVE for v in s) > _NUMBERS)
    return {name for name, count in looks.items() if count >= _AGREE}


def _share(old: Tensor, new: Tensor, watch: Tensor) -> float:
    """Of the watched steps that are not zero throughout, how many changed."""
    there = watch & _steps((old != 0) | (new != 0))
    return int((_steps(bits_differ(old, new)) & there).sum()) / max(1, int(there.sum()))


def _depends_on_order(coupled: Coupled, way: _Way, names: list[str]) -> set[str]:
    """Those whose steps change when the units are put into another order."""
    assert way.order is not None
    drawn = changed_batch(coupled.sample, coupled.sample.valid, coupled.keys)
    rows = drawn.reshape(coupled.sample.rows.shape)  # steps that are alike would tell nothing
    sample, order = replace(coupled.sample, td=drawn, rows=rows), way.order
    other = reordered(sample, order)
    base, after = coupled.elements(sample, sample.td), coupled.elements(other, other.td)
    found = set[str]()
    for name in names:
        old = base[name].flatten(0, 1)[order].reshape(base[name].shape)
        new = after.get(name)
        if new is None or new.shape != old.shape:
            continue
        beyond = _steps(gap(new, old)) > REORDERED * _scale(old)
        if bool((beyond & other.valid).any()):
            found.add(name)
    return found


def _rounded(coupled: Coupled, names: set[str]) -> set[str]:
    """Those that move by rounding alone, and in the twin without memory as well: sums over the
    batch."""
    twin, found = without_memory(coupled.elements), set[str]()
    for way in _ways(coupled.sample):
        for each in _crossed(coupled, way, twin):
            found |= {name for name in names & each.keys() if _share(*each[name]) > 0}
    return found


def counts_padding(
    sample: Sample, keys: list[Key], elements: Elements
) -> tuple[str, Difference] | None:
    """The entry that changes most at the data of some rows with the padding of the others; None
    where none does."""
    base, found = elements(sample, sample.td), list[tuple[str, Difference]]()
    odd = torch.arange(len(sample.valid)).unsqueeze(1) % 2 == 1
    for mine in (odd, ~odd):
        touched, watch = ~sample.valid & mine, sample.valid & ~mine
        after = elements(sample, changed_batch(sample, touched, keys))
        same = {n: old for n, old in base.items() if n in after and after[n].shape == old.shape}
        for name, old in same.items():
            gaps = gap(after[name], old) * watch.reshape(*watch.shape, *[1] * (old.ndim - 2))
            difference = locate(gaps, SUM_ROUNDING * _scale(old), old)
            if difference is not None:
                found.append((name, difference))
    return max(found, key=lambda one: one[1].relative, default=None)


def reordered(sample: Sample, order: Tensor) -> Sample:
    """The batch with its steps in another ``order``: numbers of steps, row by row."""
    shape = sample.rows.shape

    def turned(value: Tensor) -> Tensor:
        return value.flatten()[order].reshape(shape)

    rows = sample.rows.reshape(-1)[order].reshape(shape).contiguous()
    flag = None if sample.flag is None else turned(sample.flag)
    return replace(
        sample,
        td=rows.reshape(sample.td.shape),
        rows=rows,
        ids=turned(sample.ids),
        valid=turned(sample.valid),
        flag=flag,
    )


def _rows_turned(sample: Sample) -> Tensor:
    """The rows in the opposite order behind the first; of two both. What a loss turns or rolls by
    itself would be the same if they were turned or rolled."""
    rows = torch.arange(len(sample.valid))
    order = torch.arange(sample.valid.numel()).reshape(sample.valid.shape)
    turned: Tensor = order[-rows % len(rows) if len(rows) > 2 else rows.flip(0)].flatten()
    return turned


def _segments_turned(sample: Sample) -> Tensor | None:
    """The segments of each row in the opposite order, but for those that cannot stand elsewhere;
    None where no two can.

    A first one without a flag begins because the row does; the last one may end because the row
    does.
    """
    if sample.flag is None:
        return None
    order = torch.arange(sample.valid.numel()).reshape(sample.valid.shape)
    segments, moved = segments_of(sample), False
    for row in range(order.shape[0]):
        pieces = [order[row][segments[row] == n] for n in segments[row].unique().tolist()]
        fixed = 0 if bool(sample.flag[row, 0]) else 1
        block = pieces[fixed:-1]
        whole = bool(sample.known[row].all())
        if whole and len(block) > 1:
            order[row] = torch.cat([*pieces[:fixed], *block[::-1], pieces[-1]])
            moved = True
    return order.flatten() if moved else None


def _steps(value: Tensor) -> Tensor:
    """``[rows, steps]``: any, or the largest, of a step's features."""
    if value.ndim <= 2:
        return value
    return features(value).any(-1) if value.dtype is torch.bool else features(value).amax(-1)


def _scale(value: Tensor) -> float:
    return float(value.double().abs().nan_to_num(0.0, 0.0, 0.0).max())
