"""Targets that add the value of their own step to its reward, in rows where no end tells it.

All is asked of the memoryless twin. A constant that is added to what a target network gives moves
the target as a reward does, by the discount: its values are what the reward is added to. These
move with what is observed behind the step, unless they are of the step itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import without_memory
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import each_sample
from rnncheck.checks.evidence.rewards import paid_more, reward_keys
from rnncheck.checks.evidence.shifted_values import GivenValues, Kind, ShiftedValues, target_kinds
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.same_step import goes_on, observing, squared_total
from rnncheck.results.model import Stage, Where

_LEAST = 6  # steps that must tell
_COLUMNS = 3  # of the rows that are tried, one at a time
_SEEDS = (3, 4)  # of what is observed behind instead
_SHARES = (0.1, 1.01)  # the discount
_ALIKE = 0.02  # of a share: by how much it may be another one for twice the constant
_ROUNDING = 1e-6  # of the largest total
_TELLING = 50  # roundings: what the values that are observed behind would have to move
_STILL = 1e-3  # of the same: how far the target may follow


@dataclass(frozen=True)
class _Run:
    """One total of the loss, and what its networks gave meanwhile."""

    total: float
    given: list[GivenValues]


def values_of_own_steps(evidence: Evidence) -> Observation | None:
    """A loss whose target has a next value, to all that it is added to, and that nothing observed
    behind the step moves."""
    try:
        for number, sample in each_sample(evidence):
            if (at := _followed(evidence, sample)) is not None:
                return _observed(number, at)
    except Unanswered:  # a loss that raises is LS706's
        return None
    return None


def _followed(evidence: Evidence, sample: Sample) -> Tensor | None:
    """The steps whose target was seen to have their own value."""
    if not reward_keys(sample.td):
        return None
    kinds = target_kinds(_run(evidence, sample, sample.td).given)
    for kind in kinds:
        found = torch.zeros_like(sample.valid)
        for at in _columns(sample):
            if not _has_own(evidence, sample, at, kind):
                break
            found |= at
        else:
            if int(found.sum()) >= _LEAST:
                return found
    return None


def _columns(sample: Sample) -> Iterator[Tensor]:
    """Steps with others of their episode behind them, one of each row at a time."""
    going, steps = goes_on(sample), sample.valid.shape[1]
    for t in sorted({steps * part // (_COLUMNS + 1) for part in range(1, _COLUMNS + 1)}):
        at = torch.zeros_like(going)
        at[:, t] = going[:, t]
        if bool(at.any()):
            yield at


def _has_own(evidence: Evidence, sample: Sample, at: Tensor, kind: Kind) -> bool:
    share = _share(evidence, sample, at, kind)
    if share is None:
        return False
    behind = (at.cumsum(1) > 0) & ~at & sample.valid
    usual, here = _answer(evidence, sample, sample.td, at), _run(evidence, sample, sample.td)
    for seed in _SEEDS:
        td = observing(evidence, sample, behind, seed)
        there = _run(evidence, sample, td)
        limit = _ROUNDING * max(abs(here.total), abs(there.total))
        due = abs(share) * _by_how_much(kind, here.given, there.given)
        followed = abs(_answer(evidence, sample, td, at) - usual)
        if due < _TELLING * limit or followed > max(limit, _STILL * due):
            return False
    return True


def _share(evidence: Evidence, sample: Sample, at: Tensor, kind: Kind) -> float | None:
    """How much the answer to rewards moves with a constant more in what ``kind`` gives; None where
    that is no discount of what it moves with more rewards."""
    usual = _answer(evidence, sample, sample.td, at)
    paid = _answer(evidence, sample, paid_more(sample, sample.td, at), at) - usual
    once, twice = (_answer(evidence, sample, sample.td, at, kind, c) - usual for c in (1.0, 2.0))
    least, most = _SHARES
    if not paid or not least <= once / paid <= most:
        return None
    return once if abs(twice - 2 * once) <= _ALIKE * abs(twice) else None


def _by_how_much(kind: Kind, usual: list[GivenValues], there: list[GivenValues]) -> float:
    """How much what ``kind`` gives moves, on average over what does, in the call where it moves
    least; 0 where the calls differ."""
    pairs = [
        (one.output, other.output)
        for one, other in zip(usual, there, strict=False)
        if one.kind == kind == other.kind and not one.graphed
    ]
    if len(usual) != len(there) or any(one.shape != other.shape for one, other in pairs):
        return 0.0
    moves = [(one - other).abs() for one, other in pairs]
    return min((float(one[one > 0].mean()) if bool(one.any()) else 0.0 for one in moves), default=0)


def _answer(
    evidence: Evidence,
    sample: Sample,
    td: TensorDictBase,
    at: Tensor,
    kind: Kind | None = None,
    much: float = 0.0,
) -> float:
    """How much the loss moves with the rewards at ``at``: the sum of its errors there."""
    more = paid_more(sample, td, at)
    here, there = (_run(evidence, sample, one, kind, much).total for one in (td, more))
    return there - here


def _run(
    evidence: Evidence,
    sample: Sample,
    td: TensorDictBase,
    kind: Kind | None = None,
    much: float = 0.0,
) -> _Run:
    given, squared = list[GivenValues](), squared_total(evidence)

    def noted(sample: Sample, batch: TensorDictBase) -> dict[str, Tensor]:
        with ShiftedValues(kind, much) as shifted:
            found = squared(sample, batch)
        given[:] = shifted.seen
        return found

    return _Run(float(without_memory(noted)(sample, td)[""]), given)


def _observed(number: int, at: Tensor) -> Observation:
    row, step = at.nonzero()[0].tolist()
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"the target of {int(at.sum())} steps is made of the value of the same step: what is"
            " observed next does not enter it"
        ),
        key="value_target",
        quantity="steps whose target has a value that nothing observed behind them moves",
        measured=float(at.sum()),
        on=f"batch {number}",
        bound_formula="none",
        where=Where((number, row), step, first_step=step),
        cause="the value network is run on the step's own observation, where the next one belongs",
        fix="evaluate ('next', observation), from the state behind the step",
    )
