"""Whether what stands right behind a segment moves it in other ways than what stands elsewhere.

A statistic of the batch (advantages less their mean, over their deviation) depends on every segment
alike: whichever is changed, the entries of another one move within the same few ways. What runs
over an end moves the segment before it besides, in a way of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import segments_of, through_rows
from rnncheck.checks.evidence.loss_calls import changed_batch
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.keys import Key

_PAIRS = 3  # segments that are watched, each with the one behind it
_OTHERS, _SEEDS = 6, 2  # segments elsewhere that are changed, and how often each
_FEWEST = 2  # others, of which a statistic moves some
_LEAST = 4  # ways that must be seen
SUMMED = 1e-5  # of the largest entry: sums over the batch round over the whole of it
_SMALL = 1e-6  # of the largest move: rounding
# Share of a move that is in none of the ways seen elsewhere. Measured on PPO losses in float32:
# what a statistic does has up to 3e-2 of it, what runs over an end 0.85 and more.
_OWN, _TIMES = 0.1, 5.0
# Where the ways hold each other to within such a share, less is enough: values that are normalised
# besides hid an end at 0.05 to 0.1, with 1e-5 between the ways.
_CLEAN, _SHARP = 1e-3, 0.05
# Returns over an end, normalised over the batch, were outside by 3e-4 to 3e-3 on that side alone,
# beside ways that are 1e-5 to 1e-4 apart; TD3+BC, whose scale is the batch's, once by 3e-3.
_SEEN = 2e-4


@dataclass(frozen=True)
class WatchedSegment:
    """A segment, the one behind it in its row (or ahead of it), and others, each as
    ``[rows, steps]``."""

    segment: Tensor
    neighbour: Tensor
    others: list[Tensor]


def reached_from_behind(
    sample: Sample, keys: list[Key], elements: Callable[..., dict[str, Tensor]], names: set[str]
) -> set[str]:
    """Those of ``names`` that a change behind a segment moves in a way of its own."""
    watched = [one for ends in _kinds_of_ends(sample) for one in _watched(sample, ends)]
    looks = _looks(sample, keys, elements, names, watched)
    return {name for name, own, ways in looks if _in_no_way(own, ways)}


def moves_none_but_it(
    sample: Sample, keys: list[Key], elements: Callable[..., dict[str, Tensor]], names: set[str]
) -> set[str]:
    """Those of ``names`` that a change in a segment moves in the one ahead of it and in no other,
    and not the other way round: a statistic of many segments moves most of them. Asked where no
    episode ends between the two, as where rows were laid end to end."""
    base, found = elements(sample, sample.td), set[str]()
    for ahead, segment, rest in _open_joins(sample):
        near, back = (
            elements(sample, changed_batch(sample, touched, keys)) for touched in (segment, ahead)
        )
        for name in names & near.keys() & back.keys():
            moved, returned = (_moved_steps(base[name], each[name]) for each in (near, back))
            alone = bool((moved & ahead).any()) and not bool((moved & rest).any())
            found |= {name} if alone and not bool((returned & segment).any()) else set()
    return found


def _moved_steps(old: Tensor, new: Tensor) -> Tensor:
    """``[rows, steps]``."""
    moved = (new.double() - old.double()).abs().nan_to_num(0.0, 0.0, 0.0)
    scale = float(old.double().abs().nan_to_num(0.0, 0.0, 0.0).max())
    return (moved > SUMMED * scale).reshape(*moved.shape[:2], -1).any(-1)


def _open_joins(sample: Sample) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """A few segments that none ends ahead of, as ``[rows, steps]``: the one ahead, the segment, and
    all others, of which there are some."""
    done = sample.rows.get(("next", "done"), None)
    if done is None:
        return
    over = done.reshape(*sample.valid.shape, -1).any(-1)
    units, count = through_rows(segments_of(sample)), 0
    joined = (units[:, 1:] != units[:, :-1]) & ~over[:, :-1] & sample.valid[:, 1:]
    for row, step in joined.nonzero().tolist():
        pair = [(units == int(units[row, at])) & sample.valid for at in (step, step + 1)]
        rest = sample.valid & ~pair[0] & ~pair[1]
        if count < _PAIRS and units[rest].unique().numel() >= _FEWEST:
            count += 1
            yield pair[0], pair[1], rest


def moved_alike(
    sample: Sample, keys: list[Key], elements: Callable[..., dict[str, Tensor]], names: set[str]
) -> set[str]:
    """Those of ``names`` that a change in either neighbour of a segment moves in the very ways in
    which changes in every other row do: a statistic, even of a loss for which the order of its
    batch matters besides, such as one that cuts its gradients every few steps. All numbers are
    drawn first: where rewards are alike, a sum of them moves in the ways of a statistic."""
    kinds = _kinds_of_ends(sample)  # of the ends as they are
    drawn = changed_batch(sample, sample.valid, keys)
    sample = replace(sample, td=drawn, rows=drawn.reshape(sample.rows.shape))
    told = [_moved_alike_at(ends, sample, keys, elements, names) for ends in kinds]
    asked = [one for one in told if one is not None]
    return set.intersection(*asked) if asked else set()


def _moved_alike_at(
    ends: Tensor,
    sample: Sample,
    keys: list[Key],
    elements: Callable[..., dict[str, Tensor]],
    names: set[str],
) -> set[str] | None:
    """The same at ``ends`` of one kind; None where none of them can be watched."""
    asked, left, sharp = 0, set(names), dict[str, list[list[bool]]]()
    for ahead in (False, True):
        watched = list(_watched(sample, ends, ahead=ahead, other_rows=True))
        asked += len(watched)
        side: dict[str, list[bool]] = {}
        for name, own, ways in _looks(sample, keys, elements, names, watched):
            left -= set() if _in_their_ways(own, ways) else {name}
            side.setdefault(name, []).append(_stands_out(own, ways))
        for name in names:
            sharp.setdefault(name, []).append(side.get(name, []))
    if not asked:
        return None
    return {n for n in left if sum(map(len, sharp[n])) == asked and not _one_sided(*sharp[n])}


def _kinds_of_ends(sample: Sample) -> list[Tensor]:
    """The last steps of segments that others follow, ``[rows, steps]``, each kind by itself: those
    that are terminated, those that are over otherwise, and those that nothing ends. A target may
    stop at the one and not at another."""
    units = through_rows(segments_of(sample))
    last = torch.zeros_like(sample.valid)
    last[:, :-1] = (units[:, 1:] != units[:, :-1]) & sample.valid[:, :-1] & sample.valid[:, 1:]
    over, terminated = (_flagged(sample, name) for name in ("done", "terminated"))
    kinds = (last & terminated, last & over & ~terminated, last & ~over & ~terminated)
    return [one for one in kinds if bool(one.any())]


def _flagged(sample: Sample, name: str) -> Tensor:
    found = sample.rows.get(("next", name), None)
    if found is None:
        return torch.zeros_like(sample.valid)
    flags: Tensor = found.reshape(*sample.valid.shape, -1).any(-1)
    return flags


def _one_sided(behind: list[bool], ahead: list[bool]) -> bool:
    """Whether most neighbours of one side stand out, and none of the other."""
    return any(
        2 * sum(one) > len(one) and not any(other)
        for one, other in ((behind, ahead), (ahead, behind))
    )


def _other_rows(units: Tensor, row: int) -> Tensor:
    """Those without the row, as nothing of a row reaches another but by a statistic."""
    return torch.cat([units[:row], units[row + 1 :]])


def _looks(
    sample: Sample,
    keys: list[Key],
    elements: Callable[..., dict[str, Tensor]],
    names: set[str],
    watched: Iterable[WatchedSegment],
) -> Iterator[tuple[str, list[Tensor], list[Tensor]]]:
    """By name, how each of the segments moves with its neighbour, and with others."""
    base = elements(sample, sample.td)

    def moves(touched: Tensor, watch: Tensor, seed: int) -> dict[str, Tensor]:
        after = elements(sample, changed_batch(sample, touched, keys, seed=200 + seed))
        return {name: _moved(base[name], after[name], watch) for name in names & after.keys()}

    for one in watched:
        elsewhere = [moves(other, one.segment, n) for other in one.others for n in range(_SEEDS)]
        near = [moves(one.neighbour, one.segment, n) for n in range(_SEEDS)]
        for name in sorted(names):
            ways = [each[name] for each in elsewhere if name in each]
            yield name, [each[name] for each in near if name in each], ways


def _watched(
    sample: Sample, ends: Tensor, *, ahead: bool = False, other_rows: bool = False
) -> Iterator[WatchedSegment]:
    """A few segments that ``ends`` end, each with the one behind it in its row, or ``ahead`` the
    reverse, and others anywhere or in ``other_rows``."""
    rows, units = segments_of(sample), through_rows(segments_of(sample))
    count = 0
    for row in range(len(rows)):
        here = units[row][sample.valid[row]].unique().tolist()
        ended = set(units[row][ends[row]].tolist())
        for first, second in (pair for pair in itertools.pairwise(here) if pair[0] in ended):
            near = {first, second, second + 1 if ahead else first - 1}
            far = _other_rows(units, row)[_other_rows(sample.valid, row)] if other_rows else None
            numbers = (units[sample.valid] if far is None else far).unique().tolist()
            others = [unit for unit in numbers if unit not in near]
            chosen = others[:: max(1, len(others) // _OTHERS)][:_OTHERS]
            if chosen and count < _PAIRS:
                count += 1
                pair = (second, first) if ahead else (first, second)
                masks = [(units == unit) & sample.valid for unit in (*pair, *chosen)]
                yield WatchedSegment(masks[0], masks[1], masks[2:])
            break  # one of each row


def _moved(old: Tensor, new: Tensor, watch: Tensor) -> Tensor:
    moved = new.double()[watch] - old.double()[watch]
    return moved.flatten().nan_to_num(0.0, 0.0, 0.0)


def _in_no_way(own: Sequence[Tensor], ways: Sequence[Tensor]) -> bool:
    """Whether all of ``own`` lie outside of what the ``ways`` span, as none of these does."""
    largest = max((float(one.norm()) for one in (*own, *ways)), default=0.0)
    seen = [one for one in ways if float(one.norm()) > _SMALL * largest]
    if largest == 0.0 or len(seen) < _LEAST or not own:
        return False
    apart = [_outside(one, [*seen[:n], *seen[n + 1 :]]) for n, one in enumerate(seen)]
    limit = max(_OWN, _TIMES * max(apart))
    return all(float(one.norm()) > _SMALL * largest and _outside(one, seen) > limit for one in own)


def _in_their_ways(own: Sequence[Tensor], ways: Sequence[Tensor]) -> bool:
    """Whether all of ``own`` lie in what the ``ways`` span, as each of these does in the others'
    span, and none of these is no move at all."""
    largest = max((float(one.norm()) for one in (*own, *ways)), default=0.0)
    seen = [one for one in ways if float(one.norm()) > _SMALL * largest]
    if len(seen) < max(_LEAST, len(ways)) or not own:
        return False
    apart = max(_outside(one, [*seen[:n], *seen[n + 1 :]]) for n, one in enumerate(seen))
    moved = [one for one in own if float(one.norm()) > _SMALL * largest]
    limit = _SHARP if apart < _CLEAN else _OWN
    return apart < _OWN and all(_outside(one, seen) < limit for one in moved)


def _stands_out(own: Sequence[Tensor], ways: Sequence[Tensor]) -> bool:
    """Whether some of ``own`` lie further outside of what the ``ways`` span than any of these does
    of the others' span: sums over an end are smooth, and hardly outside where they are normalised
    besides."""
    largest = max((float(one.norm()) for one in (*own, *ways)), default=0.0)
    seen = [one for one in ways if float(one.norm()) > _SMALL * largest]
    moved = [one for one in own if float(one.norm()) > _SMALL * largest]
    if len(seen) < _LEAST or not moved:
        return False
    apart = max(_outside(one, [*seen[:n], *seen[n + 1 :]]) for n, one in enumerate(seen))
    return max(_outside(one, seen) for one in moved) > max(_SEEN, _TIMES * apart)


def _outside(one: Tensor, ways: Sequence[Tensor]) -> float:
    """The share of its length that lies in none of the ways."""
    span, values, _ = torch.linalg.svd(torch.stack(list(ways), 1), full_matrices=False)
    span = span[:, values > _SMALL * values[0]]
    return float((one - span @ (span.T @ one)).norm() / one.norm())
