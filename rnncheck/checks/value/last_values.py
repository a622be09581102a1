"""Targets that value what is observed next themselves, by calls that cannot be seen: at every step,
or behind a row's last one alone, where all others take recorded values. Whether they start from the
state that was left there, or from the one before it, shows when these are changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.estimator_calls import batches, made_by
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, run_loss
from rnncheck.checks.evidence.module_outputs import ModuleOutputs
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.evidence.value_states import states_known, states_of_values
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.estimates import ended, per_step
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage, Where

_TRIED = 3  # steps of the rows beside the first whose states are changed
Made = Callable[[TensorDictBase], Tensor]


def last_values_from_states(evidence: Evidence) -> int:
    """How many next values are computed from the state behind their step: what is made moves with
    what is observed there and with every state that was left there; of the rows' last steps, and of
    those that a time limit cut, alone, where no other next observation moves it. Asked of the
    user's own estimates, else of the loss; 0 where that is not so."""
    try:
        return sum(_rows(evidence, sample, made) for _, sample, made in asked(evidence))
    except Unanswered:
        return 0


def last_values_one_early(evidence: Evidence) -> Observation | None:
    """Values behind steps that start from the state which these steps were begun with: behind the
    rows' last ones, where what is made moves with it, as with no other inside the rows, and not
    with the one that was left; or behind any, where nothing in it moves with what these observed
    as well."""
    try:
        for number, sample, made in asked(evidence):
            early = _early(evidence, sample, made)
            early = early if bool(early.any()) else _early_inside(evidence, sample, made)
            if bool(early.any()):
                row, step = early.nonzero()[0].tolist()
                where = Where((number, row), step, first_step=step)
                return _observed(where, int(early.sum()), estimates=has_own_estimates(evidence))
    except Unanswered:
        return None
    return None


def next_values_without_state(evidence: Evidence) -> Observation | None:
    """Estimates of the user's own that value what is observed next, by networks with a memory, and
    move with no state that was left there and with nothing that was observed before."""
    for number, sample, made in asked(evidence) if has_own_estimates(evidence) else ():
        _, _, seen = behind_rows(evidence, sample)
        inside = sample.valid & ~ended(sample, "done") & ~sample.last
        own = [key for key in observed(evidence, sample) if key[0] != "next"]
        if not seen or not own or not bool(inside.any()):
            continue

        def moves(
            keys: list[Key], made: Made = made, sample: Sample = sample, at: Tensor = inside
        ) -> bool:
            return not torch.equal(made(sample.td), made(changed_batch(sample, at, keys)))

        states = states_known(evidence, sample, made, inside, seen) if moves(seen) else []
        known = states and set(states) <= set(tensor_keys(sample.rows))
        if known and not moves(own) and not moves(states):
            row, step = inside.nonzero()[0].tolist()
            return _stateless(
                Where((number, row), step, first_step=step), int(inside.sum()), states
            )
    return None


def _stateless(where: Where, count: int, states: list[Key]) -> Observation:
    named = ", ".join(map(dotted, states))
    return Observation(
        stage=Stage.ADVANTAGE,
        message=(
            f"the values of what {count} steps observed next move with none of the states that"
            f" were left there ({named})"
        ),
        key="next value",
        quantity="next values that start from another state",
        measured=float(count),
        bound_formula="none",
        where=where,
        cause="the network starts from zeros there, or from the state ahead of the step",
        fix='value the next observations from batch["next", state], each with its own',
    )


def has_own_estimates(evidence: Evidence) -> bool:
    """Whether the estimates are the user's own."""
    return bool(made_by(evidence)) and evidence.pipeline.estimator is not None


def asked(evidence: Evidence) -> Iterator[tuple[int, Sample, Made]]:
    """The user's own estimates, else the loss, of every batch with its number."""
    own = has_own_estimates(evidence)
    of = _estimates if own else _loss
    for number, sample in enumerate(batches(evidence)) if own else each_sample(evidence):
        yield number, sample, of(evidence, sample)


def _early(evidence: Evidence, sample: Sample, made: Made) -> Tensor:
    """The last steps of rows ``[rows, steps]`` of which that is so."""
    last, here, seen = behind_rows(evidence, sample)
    carry = list(evidence.policy.carry)
    keys = tensor_keys(sample.rows)
    inside = ~last & sample.valid & ~sample.trajectory_start() & ~sample.marked
    inside[:, 0] = False
    known = seen and carry and {*carry, *map(next_key, carry)} <= set(keys)
    if not known or not bool(here.any()) or not bool(inside.any()):
        return here & False

    def moves(at: Tensor, changed: list[Key]) -> bool:
        return not torch.equal(made(sample.td), made(changed_batch(sample, at, changed)))

    early = moves(here, carry) and moves(here, seen) and not moves(inside, carry)
    if not early or moves(here, list(map(next_key, carry))):
        return here & False
    own = [key for key in observed(evidence, sample) if key[0] != "next"]
    behind, ahead = (_meet(sample, made, here, carry, keys) for keys in (seen, own))
    return here if behind and ahead is False else here & False


def _early_inside(evidence: Evidence, sample: Sample, made: Made) -> Tensor:
    """The same of steps inside the rows."""
    last, _, seen = behind_rows(evidence, sample)
    carry, keys = list(evidence.policy.carry), tensor_keys(sample.rows)
    inside = ~last & sample.valid & ~sample.trajectory_start() & ~ended(sample, "done")
    inside[:, 0] = False
    known = seen and carry and {*carry, *map(next_key, carry)} <= set(keys)
    if not known or not bool(inside.any()):
        return inside & False

    def moves(changed: list[Key]) -> bool:
        return not torch.equal(made(sample.td), made(changed_batch(sample, inside, changed)))

    if not moves(carry) or not moves(seen) or moves(list(map(next_key, carry))):
        return inside & False
    own = [key for key in observed(evidence, sample) if key[0] != "next"]
    behind, ahead = (_meet(sample, made, inside, carry, keys) for keys in (seen, own))
    return inside if behind and ahead is False else inside & False


def _meet(sample: Sample, made: Made, at: Tensor, one: list[Key], other: list[Key]) -> bool | None:
    """Whether some module that has weights gives what moves with both, there: the state of a step
    and what it observes meet where a pass runs over that step. None where their calls differ."""
    with ModuleOutputs() as base:
        made(sample.td)
    told = list[list[bool]]()
    for keys in (one, other):
        with ModuleOutputs() as changed:
            made(changed_batch(sample, at, keys))
        if len(changed.seen) != len(base.seen):
            return None
        pairs = zip(base.seen, changed.seen, strict=True)
        told.append([not torch.equal(before, after) for before, after in pairs])
    return any(all(both) for both in zip(*told, strict=True))


def behind_rows(evidence: Evidence, sample: Sample) -> tuple[Tensor, Tensor, list[Key]]:
    """The last steps of the rows ``[rows, steps]``, those of them that end no episode, and what is
    observed next."""
    last = sample.last
    seen = [key for key in observed(evidence, sample) if key[0] == "next"]
    return last, last & ~ended(sample, "done") & sample.valid, seen


def _observed(where: Where, count: int, *, estimates: bool) -> Observation:
    return Observation(
        stage=Stage.ADVANTAGE if estimates else Stage.LOSS,
        message=(
            f"the values behind {count} steps start from the state that the step itself was begun"
            " with: it is one step old"
        ),
        key="next value",
        quantity="steps behind which a value moves with the state ahead of them alone",
        measured=float(count),
        bound_formula="none",
        where=where,
        cause="the state entry of the last step is the one ahead of it; what it left is under next",
        fix='start the value behind a step from batch["next", state] of that step',
    )


def _estimates(evidence: Evidence, sample: Sample) -> Made:
    names = [dotted(key) for key in made_by(evidence)]

    def made(td: TensorDictBase) -> Tensor:
        found = per_step(evidence, sample, td)
        return torch.cat([found[name].flatten().double() for name in names if name in found])

    return made


def _loss(evidence: Evidence, sample: Sample) -> Made:
    return lambda td: run_loss(evidence, sample, td, per_element=False).total


def _rows(evidence: Evidence, sample: Sample, made: Made) -> int:
    last, here, seen = behind_rows(evidence, sample)
    states = [next_key(key) for key in evidence.policy.carry]
    if not states or not seen or not set(states) <= set(tensor_keys(sample.rows)):
        return 0
    states = states_of_values(evidence, sample, made, here, seen)

    def moves(at: Tensor, keys: list[Key]) -> bool:
        return not torch.equal(made(sample.td), made(changed_batch(sample, at, keys)))

    inside, found = ~last & sample.valid, 0
    cut = inside & ended(sample, "done") & ~ended(sample, "terminated")
    inside = inside & ~ended(sample, "done")
    for steps, parts in ((inside, _columns(inside)), (cut, [cut])):
        # What no state reaches is no value: a loss may predict what is observed next.
        if moves(steps, seen) and states_known(evidence, sample, made, steps, seen):
            if not all(moves(at, [key]) for at in parts for key in states):
                return 0
            found += int(steps.sum())
    asked = [seen, *([key] for key in states)]
    return found + (int(here.sum()) if all(moves(here, keys) for keys in asked) else 0)


def _columns(inside: Tensor) -> list[Tensor]:
    """Single steps of the rows, from the first to the last."""
    steps = inside.any(0).nonzero().flatten().tolist()
    chosen = dict.fromkeys(steps[n * (len(steps) - 1) // _TRIED] for n in range(_TRIED + 1))
    return [inside & (torch.arange(inside.shape[1]) == step) for step in chosen]
