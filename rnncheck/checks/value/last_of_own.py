"""The value behind a row's last step, where it is that of the step itself.

As in `same_step`, all is asked of the memoryless twin, in which a value depends on one step alone:
what an end at the last step takes away is the value behind it. That moves with what is observed
next there, and not with what the step itself was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed, recorded_values, without_memory
from rnncheck.checks.evidence.estimator_calls import batches, made_by
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample
from rnncheck.checks.evidence.module_outputs import ModuleOutputs
from rnncheck.checks.evidence.still_statistics import StillStatistics
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.estimates import ended, per_step
from rnncheck.checks.value.last_values import asked, has_own_estimates
from rnncheck.checks.value.same_step import answer, entries_of, over_at, squared_total
from rnncheck.pipeline.keys import Key, dotted, present
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage, Where

# Of a batch: what an end at the last steps takes away, by a number for each or one for all.
Taken = Callable[[TensorDictBase], Tensor]
_ROUNDING = 1e-5  # of the largest: sums over the row round
_TELLING = 1e-3  # of the same: what another own step must move
_ALIKE = 1e-2  # of the largest: how far one share may be from that of all
_SEEDS = (3, 4, 5)  # of what is shown instead: a value may hardly depend on one of them


def last_values_of_own_steps(evidence: Evidence) -> Observation | None:
    """Last values that move with what their step was shown, and with nothing that is observed
    next, nor with a state that was left there: the user's own estimates, else the loss."""
    try:
        for number, sample in _asked(evidence):
            here = torch.zeros_like(sample.valid)
            here[:, -1] = True
            here &= sample.valid & ~ended(sample, "done")
            for taken in _each_taken(evidence, sample, here) if bool(here.any()) else ():
                if (moved := _own_alone(evidence, sample, here, taken)) is not None:
                    row, step = here.nonzero()[0].tolist()
                    where = Where((number, row), step, first_step=step)
                    return _observed(where, int(here.sum()), moved, evidence)
    except Unanswered:
        return None
    return None


def _asked(evidence: Evidence) -> Iterator[tuple[int, Sample]]:
    if has_own_estimates(evidence):
        yield from enumerate(batches(evidence))
    else:
        yield from each_sample(evidence)


def _each_taken(evidence: Evidence, sample: Sample, here: Tensor) -> Iterator[Taken]:
    """Of every entry that the user's lines make for each step, else of the loss."""
    if not has_own_estimates(evidence):
        alone = StillStatistics(without_memory(squared_total(evidence)))
        yield lambda td: torch.tensor(
            [
                answer(alone, sample, td, here)
                - answer(alone, sample, over_at(sample, td, here), here)
            ]
        )
        return

    def estimates(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        return per_step(evidence, sample, td)

    still = StillStatistics(without_memory(estimates))
    base = still(sample, sample.td)
    for name in (one for one in map(dotted, made_by(evidence)) if one in base):

        def taken(td: TensorDictBase, name: str = name) -> Tensor:
            pair = (still(sample, one)[name] for one in (td, over_at(sample, td, here)))
            going, over = (one.reshape(*here.shape, -1).double()[here] for one in pair)
            return (going - over).flatten()

        yield taken


def _own_alone(evidence: Evidence, sample: Sample, here: Tensor, taken: Taken) -> float | None:
    """By how much what is taken away moves with the step itself; None where what is observed next
    moves it, or nothing does."""
    seen = [key for key in observed(evidence, sample) if key[0] == "next"]
    left = present(sample.rows, map(next_key, evidence.policy.carry))
    usual = taken(sample.td)
    limit = float(usual.abs().max())
    if not seen or not limit:
        return None

    def moved(keys: Sequence[Key], seed: int) -> Tensor:
        return taken(changed_batch(sample, here, keys, seed=seed)) - usual

    for seed in _SEEDS:
        if bool((moved([*seen, *left], seed).abs() > _ROUNDING * limit).any()):
            return None
    for key in recorded_values(evidence, sample):
        if share := _share(sample, here, key, [moved([key], seed) for seed in _SEEDS]):
            return share
    own = entries_of(evidence, sample)
    if not own or not _is_valued_again(evidence, sample, here, own):
        return None
    most = max(float(moved(own, seed).abs().max()) for seed in _SEEDS)
    return most if most > _TELLING * limit else None


def _share(sample: Sample, here: Tensor, key: Key, moved: Sequence[Tensor]) -> float | None:
    """The one share of what a recorded number changed that all of ``moved`` moved by, one for each
    seed: a value's. An importance weight has another one for each."""
    before = sample.rows.get(key)
    changed = [
        changed_batch(sample, here, [key], seed=seed).get(key).reshape(before.shape) - before
        for seed in _SEEDS
    ]
    steps = [one.reshape(*here.shape, -1)[here].double().flatten() for one in changed]
    if len(moved[0]) == 1:  # of a loss, which adds up
        steps = [one.sum(0, keepdim=True) for one in steps]
    if any(one.shape != step.shape for one, step in zip(moved, steps, strict=True)):
        return None
    one, step = torch.cat(list(moved)), torch.cat(steps)
    share = float((one * step).sum() / step.square().sum())
    alike = float((one - share * step).abs().max()) <= _ALIKE * float(one.abs().max())
    return abs(share) if alike and share else None


def _is_valued_again(evidence: Evidence, sample: Sample, here: Tensor, own: Sequence[Key]) -> bool:
    """Whether some module gives what these steps' own observation and state move, and nothing that
    was shown before: a value that is made apart from the pass over the rows."""
    carry = list(evidence.policy.carry)
    states = present(sample.rows, [*carry, *map(next_key, carry)])
    made = next(one for _, other, one in asked(evidence) if other is sample)
    given = list[list[Tensor]]()
    for at, keys in ((here & False, own), (_ahead(sample), own), (here, own), (here, states)):
        with ModuleOutputs() as outputs:
            made(changed_batch(sample, at, keys))
        given.append(outputs.seen)
    if len({len(one) for one in given}) > 1:
        return False
    calls = zip(*given, strict=True)
    return any(
        torch.equal(base, before) and not any(torch.equal(base, one) for one in moved)
        for base, before, *moved in calls
    )


def _ahead(sample: Sample) -> Tensor:
    """All steps but the rows' last ones."""
    found = sample.valid.clone()
    found[:, -1] = False
    return found


def _observed(where: Where, count: int, moved: float, evidence: Evidence) -> Observation:
    return Observation(
        stage=Stage.ADVANTAGE if has_own_estimates(evidence) else Stage.LOSS,
        message=(
            f"the values behind {count} last steps are made of what these steps themselves were"
            " shown: what is observed next does not enter them"
        ),
        key="next value",
        quantity="change of what an end takes away with the step's own observation",
        measured=moved,
        bound_formula="none",
        where=where,
        cause="the value of a row's last step stands for the one behind it",
        fix="value what is observed behind the last step, from the state that the step left",
    )
