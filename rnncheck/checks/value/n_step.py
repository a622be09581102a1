"""n-step targets whose next value is not the one behind their last reward.

All is asked of the memoryless twin. The reward of step s enters the targets of steps s-n+1 to s,
which are held against the values there and bootstrap from what is observed at s+1 to s+n: how the
loss answers to that reward moves with what is observed at these steps, and at no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from rnncheck.checks.evidence.burn_in_by_loss import warms_up
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import each_sample, loss_of
from rnncheck.checks.evidence.rewards import reward_keys
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.same_step import answer_of, observing
from rnncheck.results.model import Stage, Where

_ROUNDING = 1e-5  # of the largest answer
_LONGEST = 10  # steps to either side that are tried: the n of n-step targets in use are below that
_GAP = 2  # steps in a row that move nothing end the search: one may by chance
_LEAST = 2  # steps that must tell the same
_ALONE = 2  # steps that may be in the targets of no other
_TRIED = 6  # steps that are asked at most


def bootstraps_early(evidence: Evidence) -> Observation | None:
    """A loss whose n-step targets end with the value of the step of their last reward."""
    try:
        loss_of(evidence)
        for number, sample in each_sample(evidence):
            places = list(_early(evidence, sample)) if reward_keys(sample.td) else []
            if len(places) >= _LEAST and len({steps for _, _, steps in places}) == 1:
                row, step, steps = places[0]
                return _observed(Where((number, row), step, first_step=step), len(places), steps)
    except Unanswered:  # a loss that raises is LS706's
        return None
    return None


def _early(evidence: Evidence, sample: Sample) -> Iterator[tuple[int, int, int]]:
    """Row, step and how many rewards its targets sum, of steps of which that is so; nothing more
    behind one of which it is not."""
    alone = 0
    for row, step, back, ahead in _asked(sample):
        behind = _reach(evidence, sample, row, step, -1, back)
        if behind == 0 and alone < _ALONE and warms_up(evidence, sample):  # the first behind it
            alone += 1
            continue
        if not behind:
            return
        further = _reach(evidence, sample, row, step, 1, min(ahead, behind + _GAP))
        if further is None or further != behind or behind + 1 > ahead:
            return
        yield row, step, behind + 1


def _asked(sample: Sample) -> Iterator[tuple[int, int, int, int]]:
    """Steps in the middle of what goes on in a row, with how many of it are ahead and behind."""
    found = 0
    for row in range(len(sample.valid)):
        goes_on = sample.follows[row] & sample.valid[row]
        starts = [0, *(~goes_on[1:]).nonzero().flatten().add(1).tolist(), len(goes_on)]
        for begin, end in pairwise(starts):
            for step in range(begin + (end - begin) // 2 - 1, begin + (end - begin) // 2 + 1):
                back, ahead = step - begin, end - 1 - step
                if min(back, ahead) > _GAP and found < _TRIED:
                    found += 1
                    yield row, step, back, ahead


def _reach(
    evidence: Evidence, sample: Sample, row: int, step: int, way: int, most: int
) -> int | None:
    """How many steps further that way what is observed moves the answer to the reward of the step;
    None where that may go on behind the ``most`` steps that are there, or none does."""
    at = _only(sample, row, step)
    whole = answer_of(evidence, sample, sample.td, at)
    furthest, still = None if way < 0 else 0, 0
    for count in range(min(most, _LONGEST) + 1):
        there = _only(sample, row, step + way * count)
        moved = answer_of(evidence, sample, observing(evidence, sample, there), at)
        if abs(moved - whole) > _ROUNDING * max(abs(moved), abs(whole)):
            furthest, still = count, 0
        else:
            still += 1
        if still >= _GAP:
            return furthest
    return None


def _only(sample: Sample, row: int, step: int) -> Tensor:
    at = torch.zeros_like(sample.valid)
    at[row, step] = True
    return at


def _observed(where: Where, count: int, rewards: int) -> Observation:
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"targets sum {rewards} rewards and end with the value of the step of the last of them,"
            " which the step behind it is to give"
        ),
        key="value_target",
        quantity="steps whose reward reaches as far as the values that the targets end with",
        measured=float(count),
        bound_formula="none: the value behind the last reward is that of the step behind it",
        where=where,
        cause="the next values of an n-step target are taken n - 1 steps ahead, not n",
        fix="target[t] = sum(gamma**k * reward[t + k] for k < n) + gamma**n * value[t + n]",
    )
