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
from rnncheck.checks.evidence.module_copies import is_copy
from rnncheck.checks.evidence.module_outputs import ModuleOutputs
from rnncheck.checks.evidence.recurrent_pass import unroll_one
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.evidence.value_states import states_known
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.estimates import ended
from rnncheck.checks.value.last_values import asked, has_own_estimates
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.printable import counted
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
        with ModuleOutputs(layers=True) as changed:
            self.made(changed_batch(self.sample, at, keys))
        if len(changed.seen) != len(self.base.seen):
            return None
        pairs = enumerate(zip(self.base.seen, changed.seen, strict=True))
        return {number for number, (one, other) in pairs if not torch.equal(one, other)}


@dataclass(frozen=True)
class _Valued:
    """The calls that value what is observed next at the last steps ``here``: what is ``seen`` there
    moves them. ``own`` is what is observed at a step."""

    calls: _Calls
    numbers: set[int]
    here: Tensor
    seen: list[Key]
    own: list[Key]

    def moves(self, at: Tensor, keys: list[Key]) -> bool | None:
        """Whether other values there move one of them; None where there are other calls then."""
        moved = self.calls.moved(at, keys)
        return None if moved is None else bool(moved & self.numbers)


def last_values_from_elsewhere(evidence: Evidence) -> Observation | None:
    """The values behind the rows' last steps, where none of the calls that what is observed there
    moves is moved by the state that was left there, nor by what was observed ahead of it."""
    try:
        for number, sample, made in asked(evidence):
            valued = _valued(evidence, sample, made)
            for at, why in () if valued is None else _elsewhere(evidence, valued):
                row, step = at.nonzero()[0].tolist()
                where = Where((number, row), step, first_step=step)
                return _observed(where, int(at.sum()), why, estimates=has_own_estimates(evidence))
    except Unanswered:
        return None
    return None


def last_values_from_the_pass(evidence: Evidence) -> int:
    """How many values behind rows' last steps go on from the loss's own pass over these: what is
    observed at the step itself moves them as well."""
    try:
        found = [_valued(evidence, sample, made) for _, sample, made in asked(evidence)]
        told = [one for one in found if one is not None and one.moves(one.here, one.own)]
    except Unanswered:
        return 0
    return sum(int(one.here.sum()) for one in told)


def _valued(evidence: Evidence, sample: Sample, made: Made) -> _Valued | None:
    here = sample.last & ~ended(sample, "done") & sample.valid
    carry, keys = list(evidence.policy.carry), tensor_keys(sample.rows)
    both = observed(evidence, sample)
    seen, own = ([k for k in both if (k[0] == "next") is wanted] for wanted in (True, False))
    known = {*carry, *map(next_key, carry)} <= set(keys) and seen and own and carry
    if not known or not bool(here.any()) or sample.valid.shape[1] < 2:
        return None
    with ModuleOutputs(layers=True) as base:
        made(sample.td)
    calls = _Calls(sample, made, base)
    valued = calls.moved(here, seen)
    if not valued or not states_known(evidence, sample, made, here, seen):
        return None
    return _Valued(calls, valued, here, seen, own)


def _elsewhere(evidence: Evidence, valued: _Valued) -> Iterator[tuple[Tensor, str]]:
    """The last steps ``[rows, steps]`` and what their value starts from instead."""
    sample, here, carry = valued.calls.sample, valued.here, list(evidence.policy.carry)
    inside, first = sample.valid & ~sample.last, torch.zeros_like(sample.valid)
    first[:, 0] = True
    left = [next_key(key) for key in carry]
    for at, what in (
        (here, left),
        (here, valued.own),
        (here, carry),
        (inside, valued.seen),
        (inside, left),
    ):
        if valued.moves(at, what) is not False:
            return
    early, begun = valued.moves(inside, valued.own), valued.moves(first, carry)
    if early is None or begun is None:
        return
    if early:
        yield here, "a state that lacks their last step"
    elif begun:
        yield here, "the state that its row began with"
    elif _are_from_zeros(evidence, valued):
        yield here, "zeros"


def _are_from_zeros(evidence: Evidence, valued: _Valued) -> bool:
    """Whether one of the calls gives what a module that acts does where it begins with zeros. One
    that starts from a state which nothing in the batch moves, as an object may hold it, gives
    something else."""
    sample, calls, policy = valued.calls.sample, valued.calls, evidence.policy
    row, last = valued.here.nonzero()[0].tolist()
    step = sample.rows[row : row + 1, last].clone()
    for key in valued.own:
        step.set(key, step.get(next_key(key)))
    given = list[ModuleOutputs]()
    for state in (0.0, 0.5):
        for key in (*policy.carry, *policy.flags):
            value = step.get(key)
            step.set(key, torch.full_like(value, state if key in policy.carry else 0))
        with ModuleOutputs(layers=True) as noted:
            unroll_one(policy, step.clone())
        given.append(noted)
    remembering = set(map(id, given[0].moved(given[1])))
    mine = [
        (calls.base.modules[n], calls.base.seen[n].reshape(len(sample.rows), -1)[row])
        for n in valued.numbers
        if calls.base.seen[n].numel() % len(sample.rows) == 0
    ]
    return any(
        id(other) in remembering and is_copy(module, other) and _alike(value, told)
        for module, value in mine
        for other, told in zip(given[0].modules, given[0].seen, strict=True)
    )


def _alike(one: Tensor, other: Tensor) -> bool:
    given = other.flatten().to(one)
    return one.shape == given.shape and torch.allclose(one, given, 1e-3, 1e-5)


def _observed(where: Where, count: int, why: str, *, estimates: bool) -> Observation:
    return Observation(
        stage=Stage.ADVANTAGE if estimates else Stage.LOSS,
        message=f"the values behind the last steps of {counted(count, 'row')} start from {why}",
        key="next value",
        quantity="last values that move with no state that was left there",
        measured=float(count),
        bound_formula="none",
        where=where,
        cause="the network is given another state for what is observed last than acting left",
        fix="value what is observed behind a rollout from the state that its last step left",
    )
