"""The value behind a row's last step, made of what another step of the row observed next: an index
that is off, such as the first in the place of the last."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch
from rnncheck.checks.evidence.rewards import reward_keys
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.estimates import ended
from rnncheck.checks.value.last_values import asked, behind_rows, has_own_estimates
from rnncheck.pipeline.keys import Key
from rnncheck.printable import counted
from rnncheck.results.model import Stage, Where

_Made = Callable[[TensorDictBase], Tensor]
_FEWEST = 3  # steps of a row, so that one of several is told


def last_values_of_another_step(evidence: Evidence) -> Observation | None:
    """What is made of a batch moves with nothing that was observed behind the rows' last steps,
    which go on and whose rewards move it, and with what one other step alone observed next."""
    try:
        for number, sample, made in asked(evidence):
            last, here, seen = behind_rows(evidence, sample)
            inside = sample.valid & ~last & ~ended(sample, "done")
            if sample.valid.shape[1] < _FEWEST or not seen or not bool(here.any()):
                continue
            if not _leaves_out(sample, made, here, seen):
                continue
            step = _one_step(sample, made, inside, seen)
            if step is not None:
                row, at = here.nonzero()[0].tolist()
                where = Where((number, row), at, first_step=at)
                stage = Stage.ADVANTAGE if has_own_estimates(evidence) else Stage.LOSS
                return _observed(stage, where, int(here.sum()), step)
    except Unanswered:
        return None
    return None


def _moves(sample: Sample, made: _Made, at: Tensor, keys: list[Key]) -> bool:
    return not torch.equal(made(sample.td), made(changed_batch(sample, at, keys)))


def _leaves_out(sample: Sample, made: _Made, here: Tensor, seen: list[Key]) -> bool:
    """Whether rewards of these steps are of use, and what they observed next is not."""
    rewards = reward_keys(sample.rows)
    paid = bool(rewards) and _moves(sample, made, here, rewards)
    return paid and not _moves(sample, made, here, seen)


def _one_step(sample: Sample, made: _Made, inside: Tensor, seen: list[Key]) -> int | None:
    """The one step of the rows at which what was observed next moves it; None where there is none,
    or there are several."""
    low, high = 0, inside.shape[1]
    steps = torch.arange(high)

    def move(begin: int, end: int) -> bool:
        at = inside & (steps >= begin) & (steps < end)
        return bool(at.any()) and _moves(sample, made, at, seen)

    if not move(low, high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        ahead, behind = move(low, middle), move(middle, high)
        if ahead and behind:
            return None
        low, high = (low, middle) if ahead else (middle, high)
    return low


def _observed(stage: Stage, where: Where, count: int, step: int) -> Observation:
    return Observation(
        stage=stage,
        message=(
            f"the value behind the last step of {counted(count, 'row')} is made of what step {step}"
            " observed next"
        ),
        key="next value",
        quantity="rows whose last value moves with nothing that was observed behind them",
        measured=float(count),
        bound_formula="none",
        where=where,
        cause="an index that is off: the observation behind a row is that of another of its steps",
        fix='value what the last step observed next: batch["next"][:, -1]',
    )
