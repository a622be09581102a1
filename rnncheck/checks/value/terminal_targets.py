"""Whether a loss's own target of a terminated step depends on what is observed behind the end, told
by the loss's answer to other rewards."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed, segments_of
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    each_sample,
    loss_of,
    parameters_of,
    run_loss,
)
from rnncheck.checks.evidence.module_outputs import ModuleOutputs
from rnncheck.checks.evidence.rewards import paid_more, reward_keys
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.checks.value.estimates import ended
from rnncheck.pipeline.instruments.distances import SquaredErrors
from rnncheck.pipeline.keys import Key, tensor_keys

PREDICTED = "the loss predicts rewards out of what is observed next, and makes no target"
_ROUNDING = 1e-5  # of the largest answer: vectorised sums of rewards round over the whole row
_FINE = 8e-7  # the same of one that need not be told from rounding by itself: some last places
SEEDS = (3, 4, 5)  # of what is observed instead, until one tells
_MORE = 16.0  # times the largest reward: the answer to it may stand out of a loss that hides others
_SHARE = (
    1e-3  # of what the next episode's first step moves: with as much the batch moves as a whole
)
_OVER = (("next", "terminated"), ("next", "done"))
_TRAINED = 1e-3  # share of a gradient that other next observations move, so that rounding does not
_EVERY = 4  # steps from one to the next that is taken for an end, where no episode ends


@dataclass(frozen=True)
class Moves:
    """By how much the answer to other rewards at the ends moves, 0 for rounding; ``told``: it would
    move with the target. ``predicted``: rewards are what the loss predicts, and no part of one."""

    size: float
    told: bool
    predicted: bool = False


def target_moves(evidence: Evidence, sample: Sample, ends: Tensor) -> Moves:
    """How the loss answers to other rewards at ``ends``, with the next observation there and with
    another.

    For a squared error the answer is the error itself, and distances that saturate are squared
    meanwhile; terms that read no reward cancel. Rewards are moved up, and down for a loss that
    clips them. An answer in proportion to the change tells nothing of a target, unless the loss
    itself is the same with either observation.
    """
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    for seed in SEEDS:
        there = changed_batch(sample, ends, keys, seed=seed)
        batches = [with_ends(sample, one, ends) for one in (sample.td, there)]
        answer = _answered(evidence, sample, batches, ends)
        if answer.moves.size or answer.same or not answer.moves.told:
            break  # else it may be what is observed that is too much alike
    moves, factor = answer.moves, answer.factor
    turned = _turned(evidence, sample, batches, ends, factor) if moves.told else 0.0
    if turned and _trains_on_next(evidence, sample, batches):
        return Moves(0.0, told=False, predicted=True)
    return Moves(moves.size or turned, told=True) if moves.told else moves


def unpaid_targets(evidence: Evidence, sample: Sample) -> bool:
    """Whether what is observed behind terminated steps moves a loss that no reward of the batch
    does, and no gradient goes back there: it makes targets, of rewards that were not seen on their
    way to it. Of a loss that is trained on what is observed next this does not tell."""
    ends = ended(sample, "terminated")
    if not bool(ends.any()):
        return False
    still = _total(evidence, sample, sample.td)
    if any(
        _total(evidence, sample, _paid(sample, sample.td, sample.valid, much)) != still
        for much in (1.0, -1.0)
    ):
        return False
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    there = changed_batch(sample, ends, keys)
    moved = abs(_total(evidence, sample, there) - still)
    return moved > _ROUNDING * abs(still) and not _reaches_next(evidence, sample)


def predicts_rewards_alone(evidence: Evidence) -> bool:
    """Whether the rewards are what the loss predicts, as a world model does, and an end takes
    nothing away from its answer to them: it makes no target."""
    found = False
    try:
        for _, sample in each_sample(evidence):
            ends = some_steps(sample) if reward_keys(sample.td) else sample.valid & False
            if not bool(ends.any()):
                continue
            if not target_moves(evidence, sample, ends).predicted:
                return False
            over = [sample.td, with_ends(sample, sample.td, ends)]
            if _answered(evidence, sample, over, ends).moves.size:
                return False
            found = True
    except Unanswered:  # a loss that raises is LS706's
        return False
    return found


def next_episode_moves(evidence: Evidence, sample: Sample, ends: Tensor) -> Moves:
    """The same of what the next episode begins with, behind ``ends`` as truncations: a target may
    use what is observed behind its own step alone. What moves with the rest of that episode as
    well, or with what others begin with, moves with the batch, by a statistic of it, and tells
    nothing."""
    keys = [key for key in observed(evidence, sample) if key[0] != "next"]
    truncated = sample.td
    for name, value in (("terminated", 0), ("truncated", 1), ("done", 1)):
        if ("next", name) in tensor_keys(sample.rows):
            truncated = _set(sample, truncated, ("next", name), ends, value)
    first, segments = _behind(ends), segments_of(sample)
    whose = segments + torch.arange(len(segments)).unsqueeze(1) * (segments.max() + 1)
    later = torch.isin(whose, whose[first]) & sample.valid & ~first
    begins = sample.valid.clone()
    begins[:, 1:] &= whose[:, 1:] != whose[:, :-1]
    others = begins & ~torch.isin(whose, whose[first | ends])

    def moved(at: Tensor, rounding: float) -> Moves:
        batches = [truncated, _changed(sample, truncated, at, keys)]
        return _answered(evidence, sample, batches, ends, rounding).moves

    moves = moved(first, _ROUNDING)
    if moves.size and any(moved(at, _FINE).size > _SHARE * moves.size for at in (later, others)):
        return Moves(0.0, told=False)
    return moves


def _changed(sample: Sample, td: TensorDictBase, at: Tensor, keys: list[Key]) -> TensorDictBase:
    """``td`` with what the changed batch has under ``keys``."""
    other = changed_batch(sample, at, keys)
    return td.clone().update({key: other.get(key) for key in keys})


def _behind(at: Tensor) -> Tensor:
    """The steps ``[rows, steps]`` behind those."""
    moved = torch.zeros_like(at)
    moved[:, 1:] = at[:, :-1]
    return moved


def answer_moves(
    evidence: Evidence,
    sample: Sample,
    batches: list[TensorDictBase],
    at: Tensor,
    *,
    fine: bool = False,
) -> Moves:
    """How the answers to other rewards ``at`` some steps differ from one batch to the other;
    ``fine``: what differs by some last places counts as well."""
    return _answered(evidence, sample, batches, at, _FINE if fine else _ROUNDING).moves


def _answered(
    evidence: Evidence,
    sample: Sample,
    batches: list[TensorDictBase],
    ends: Tensor,
    rounding: float = _ROUNDING,
) -> _Answer:
    """How the answers to other rewards on two batches differ, and which rewards these are: larger
    ones where the first tell of nothing that would not be rounding."""
    with SquaredErrors():
        still = [_total(evidence, sample, one) for one in batches]
        asked = functools.partial(_answer_to, evidence, sample, batches, ends, still, rounding)
        found = next((one for f in (1.0, -1.0) if (one := asked(f)) is not None), None)
        if found is None:
            return _Answer(Moves(0.0, told=False), 1.0, same=False)
        if found.moves.told and not found.moves.size and not found.same:
            larger = (asked(much * found.factor) for much in (_MORE, -_MORE))
            found = next((one for one in larger if one is not None and one.moves.size), found)
    return found


@dataclass(frozen=True)
class _Answer:
    """What rewards that are moved by ``factor`` move; ``same``: bit for bit on both batches."""

    moves: Moves
    factor: float
    same: bool


def _answer_to(
    evidence: Evidence,
    sample: Sample,
    batches: list[TensorDictBase],
    ends: Tensor,
    still: list[float],
    rounding: float,
    factor: float,
) -> _Answer | None:
    """None where the loss does not move at all with these rewards."""
    answers, twice = (
        [
            _total(evidence, sample, _paid(sample, one, ends, much * factor)) - base
            for one, base in zip(batches, still, strict=True)
        ]
        for much in (1, 2)
    )
    if answers[0] == 0:
        return None
    limit = rounding * max(1e-6, *map(abs, (*still, *answers, *twice)))
    size = abs(answers[0] - answers[1])
    linear = abs(twice[0] - 2 * answers[0]) <= 4 * limit
    told = not linear or abs(still[0] - still[1]) <= limit
    size = size / abs(factor) if size > limit and told else 0.0
    same = still[0] == still[1] and answers[0] == answers[1]
    return _Answer(Moves(size, told), factor, same)


def _turned(
    evidence: Evidence, sample: Sample, batches: list[TensorDictBase], ends: Tensor, much: float
) -> float:
    """By which share of it the gradient of the answer moves from one batch to the other, 0 for
    rounding. That of a squared error does not move with its target. That of a target which is a
    distribution does, and more than the loss itself; and that of a prediction which is trained out
    of what is observed next, as a world model's of its rewards."""
    with SquaredErrors():
        here, there = (
            _answer_gradient(evidence, sample, one, _paid(sample, one, ends, much))
            for one in batches
        )
    if here is None or there is None:
        return 0.0
    share = float((here - there).norm()) / max(float(here.norm()), float(there.norm()), 1e-12)
    return share if share > _TRAINED else 0.0


def _trains_on_next(evidence: Evidence, sample: Sample, batches: list[TensorDictBase]) -> bool:
    """Whether what the loss trains runs on what is observed next: on both batches it gives other
    numbers, with a graph, or a gradient goes back to that."""
    noted = list[ModuleOutputs]()
    for one in batches:
        with ModuleOutputs(graphed=True) as outputs:
            _total(evidence, sample, one)
        noted.append(outputs)
    here, there = noted
    alike = len(here.seen) == len(there.seen) and not here.moved(there)
    return not alike or _reaches_next(evidence, sample)


def _reaches_next(evidence: Evidence, sample: Sample) -> bool:
    """Whether a gradient of the loss goes back to what is observed next, as far as that can be
    told: nothing goes back to whole numbers."""
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    leaves = {key: sample.td.get(key).clone() for key in keys}
    if not all(leaf.is_floating_point() for leaf in leaves.values()):
        return True
    given = [leaf.requires_grad_() for leaf in leaves.values()]
    batch = sample.td.clone().update(leaves)
    total = run_loss(evidence, sample, batch, per_element=False).total
    if not total.requires_grad:
        return False
    found = torch.autograd.grad(total, given, allow_unused=True)
    return any(one is not None and bool(one.any()) for one in found)


def _answer_gradient(
    evidence: Evidence, sample: Sample, still: TensorDictBase, paid: TensorDictBase
) -> Tensor | None:
    """Of the answer to other rewards, by all parameters of the loss."""
    loss = copied(loss_of(evidence))
    named = parameters_of(loss)
    totals = [
        run_loss(evidence, sample, td, loss=loss, per_element=False).total for td in (paid, still)
    ]
    if not named or not all(total.requires_grad for total in totals):
        return None
    weights = [one for _, one in named]
    given = [torch.autograd.grad(total, weights, allow_unused=True) for total in totals]
    parts = [
        ((torch.zeros_like(w) if a is None else a) - (torch.zeros_like(w) if b is None else b))
        for w, a, b in zip(weights, *given, strict=True)
    ]
    return torch.cat([part.detach().double().cpu().flatten() for part in parts])


def asked_ends(evidence: Evidence, sample: Sample) -> Tensor:
    """The terminated steps ``[rows, steps]``; where none is, some that go on, unless the loss takes
    ends from something else: what was made of the ends before would not end with them."""
    ends = ended(sample, "terminated")
    if bool(ends.any()):
        return ends
    marked = some_steps(sample)
    return ends if takes_other_ends(evidence, sample, marked) else marked


def takes_other_ends(evidence: Evidence, sample: Sample, ends: Tensor) -> bool:
    """Whether another entry of a step keeps the loss's target from what is observed behind it, or
    was made ahead of the loss and is read by it."""
    seen = {*observed(evidence, sample), *evidence.policy.carry, *evidence.policy.flags}
    skip = {*seen, *_OVER, ("next", "truncated"), *reward_keys(sample.td), *evidence.env.actions}
    numbers = [
        key
        for key in tensor_keys(sample.rows)
        if (value := sample.rows.get(key)).is_floating_point() or value.dtype == torch.bool
        if value.numel() == sample.valid.numel() and not {key, key[1:]} & skip
    ]
    read = _read(evidence, sample, numbers, ends)
    try:
        unread = len(read) < len(numbers) and _needs_none(evidence, sample, ends)
        return unread or any(_ends_with(evidence, sample, key, ends) for key in read)
    except Unanswered:  # a loss that takes certain numbers alone
        return True


def _read(evidence: Evidence, sample: Sample, keys: list[Key], ends: Tensor) -> list[Key]:
    """Those of the entries that change the loss, asked of many together: most are not read."""
    if not keys or not _change(evidence, sample, keys, ends):
        return []
    if len(keys) == 1:
        return keys
    half = len(keys) // 2
    return [
        one for part in (keys[:half], keys[half:]) for one in _read(evidence, sample, part, ends)
    ]


def _change(evidence: Evidence, sample: Sample, keys: list[Key], ends: Tensor) -> bool:
    """Whether other numbers there, or zeros or ones at ``ends``, change the loss, or it takes none
    of these."""
    batches = [changed_batch(sample, sample.valid, keys)]
    for value in (0, 1):
        set_to = sample.td
        for key in keys:
            set_to = _set(sample, set_to, key, ends, value)
        batches.append(set_to)
    try:
        base = _total(evidence, sample, sample.td)
        return any(_total(evidence, sample, one) != base for one in batches)
    except Unanswered:
        return True


def _needs_none(evidence: Evidence, sample: Sample, ends: Tensor) -> bool:
    """Whether the loss reads nothing of what is observed behind ``ends``, whatever is set there."""
    following = [one for one in observed(evidence, sample) if one[0] == "next"]
    here = _total(evidence, sample, sample.td)
    moved = abs(here - _total(evidence, sample, changed_batch(sample, ends, following)))
    return moved <= _ROUNDING * abs(here)


def _ends_with(evidence: Evidence, sample: Sample, key: Key, ends: Tensor) -> bool:
    """Whether the loss reads a number that was not collected, or at ``ends`` nothing behind them
    where the entry is 0, or 1, there."""
    if sample.rows.get(key).is_floating_point() and sample.steps.column(key) is None:
        other = changed_batch(sample, sample.valid, [key])
        return _total(evidence, sample, other) != _total(evidence, sample, sample.td)
    following = [one for one in observed(evidence, sample) if one[0] == "next"]
    for value in (0, 1):
        here = _set(sample, sample.td, key, ends, value)
        there = _set(sample, changed_batch(sample, ends, following), key, ends, value)
        moved = abs(_total(evidence, sample, here) - _total(evidence, sample, there))
        if moved <= _ROUNDING * abs(_total(evidence, sample, here)):
            return True
    return False


def _set(sample: Sample, td: TensorDictBase, key: Key, at: Tensor, value: int) -> TensorDictBase:
    rows = td.reshape(sample.rows.shape).clone()
    flag = rows.get(key)
    new = torch.where(at.reshape(flag.shape), torch.full_like(flag, value), flag)
    return rows.set(key, new).reshape(sample.td.shape)


def some_steps(sample: Sample) -> Tensor:
    """Some steps ``[rows, steps]`` that go on, to be taken for ends."""
    ends = ended(sample, "terminated")
    going = torch.zeros_like(ends)
    going[:, :-1] = sample.follows[:, 1:] & ~ended(sample, "done")[:, :-1]
    return going & (torch.arange(ends.shape[1]) % _EVERY == 1)


def with_ends(sample: Sample, td: TensorDictBase, ends: Tensor) -> TensorDictBase:
    """The batch with episodes that end there, as many do already."""
    rows = td.reshape(sample.rows.shape).clone()
    begins = _behind(ends)
    starts = sample.steps.recording.subject.flags
    for key, at in (*((key, ends) for key in _OVER), *((key, begins) for key in starts)):
        if key in tensor_keys(rows) and rows.get(key).dtype == torch.bool:
            flag = rows.get(key)
            rows.set(key, flag | at.reshape(*at.shape, *([1] * (flag.ndim - 2))))
    return rows.reshape(sample.td.shape)


def _paid(sample: Sample, td: TensorDictBase, at: Tensor, much: float) -> TensorDictBase:
    """The batch with other rewards there."""
    largest = max(float(td.get(key).abs().max()) for key in reward_keys(td))
    return paid_more(sample, td, at, much * (1 + largest))


def _total(evidence: Evidence, sample: Sample, td: TensorDictBase) -> float:
    return float(run_loss(evidence, sample, td, per_element=False).total.detach())
