"""The value behind a row's last step, by a pass over what was observed there alone: the state that
it starts from must be the one that the step left, neither that of the row's first step nor
zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch
from rnncheck.checks.evidence.module_outputs import ModuleOutputs
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.estimates import ended
from rnncheck.checks.value.last_values import asked, is_own
from rnncheck.checks.value.value_states import states_known
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage, Where

Made = Callable[[TensorDictBase], Tensor]


@dataclass(frozen=True)
class _Calls:
    """What modules give while a loss or an estimate is ``made`` of the batch."""

    sample: Sample
    made: Made
    base: ModuleOutputs

    def moved(self, at: Tensor, keys: list[Key]) -> set[int] | None:
        """The calls, by number, that other values of ``keys`` ``at`` these steps move; None where
        there are other calls then."""
        with ModuleOutputs() as changed:
            self.made(changed_batch(self.sample, at, keys))
        if len(changed.seen) != len(self.base.seen):
            return None
        pairs = enumerate(zip(self.base.seen, changed.seen, strict=True))
        return {number for number, (one, other) in pairs if not torch.equal(one, other)}


def last_values_from_elsewhere(evidence: Evidence) -> Observation | None:
    """The values behind the rows' last steps, where none of the calls that what is observed there
    moves is moved by the state that was left there, nor by what was observed ahead of it."""
    try:
        for number, sample, made in asked(evidence):
            for at, why in _elsewhere(evidence, sample, made):
                row, step = at.nonzero()[0].tolist()
                where = Where((number, row), step, first_step=step)
                return _observed(where, int(at.sum()), why, estimates=is_own(evidence))
    except Unanswered:
        return None
    return None


def _elsewhere(evidence: Evidence, sample: Sample, made: Made) -> Iterator[tuple[Tensor, str]]:
    """The last steps ``[rows, steps]`` and what their value starts from instead."""
    last = torch.zeros_like(sample.valid)
    last[:, -1] = True
    first = torch.zeros_like(sample.valid)
    first[:, 0] = True
    here = last & ~ended(sample, "done") & sample.valid
    carry, keys = list(evidence.policy.carry), tensor_keys(sample.rows)
    both = observed(evidence, sample)
    seen, own = ([k for k in both if (k[0] == "next") is wanted] for wanted in (True, False))
    left = [next_key(key) for key in carry]
    known = {*carry, *left} <= set(keys) and seen and own and carry
    if not known or not bool(here.any()) or sample.valid.shape[1] < 2:
        return
    with ModuleOutputs() as base:
        made(sample.td)
    calls = _Calls(sample, made, base)
    valued = calls.moved(here, seen)
    if not valued or not states_known(evidence, sample, made, here, seen):
        return
    inside = sample.valid & ~last
    for at, what in ((here, left), (here, own), (here, carry), (inside, seen)):
        moved = calls.moved(at, what)
        if moved is None or moved & valued:
            return
    begun = calls.moved(first, carry)
    if begun is not None:
        yield here, "the state that its row began with" if begun & valued else "zeros"


def _observed(where: Where, count: int, why: str, *, estimates: bool) -> Observation:
    return Observation(
        stage=Stage.ADVANTAGE if estimates else Stage.LOSS,
        message=f"the values behind the last steps of {count} rows start from {why}",
        key="next value",
        quantity="last values that move with no state that was left there",
        measured=float(count),
        bound_formula="none",
        where=where,
        cause="the network is given another state for what is observed last than acting left",
        fix="value what is observed behind a rollout from the state that its last step left",
    )
