"""What a loop adds to the reward where a time limit cuts an episode: the value of what would have
followed, which starts from what was observed last and the state that was left there."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import each_sample
from rnncheck.checks.evidence.recurrent_pass import unroll_one
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation
from rnncheck.pipeline.keys import REWARD_ADDED, Key, tensor_keys
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage, Where

_MOST = 16  # steps that are asked: chosen
_CLOSE = 1e-3  # relative: values and discount were computed in float32
_LEAST = 2  # steps that must agree on the discount before anything is said

_Step = Callable[[TensorDictBase, int, int], TensorDictBase]


def added_values(evidence: Evidence) -> tuple[Observation | None, int]:
    """The first batch in which what was added is a value of something else, and how many values
    are those of what followed. Nothing is said where it is a multiple of none that acting gives."""
    count = 0
    for number, sample in each_sample(evidence):
        if REWARD_ADDED not in tensor_keys(sample.rows):
            continue
        added = sample.rows.get(REWARD_ADDED).reshape(*sample.valid.shape)
        steps = ((added != 0) & sample.valid).nonzero().tolist()[:_MOST]
        if _is_multiple(evidence, sample, steps, added, _followed(evidence, sample)):
            count += len(steps)
            continue
        for other, cause in _others(evidence, sample):
            asked = [one for one in steps if one[1] + 1 < sample.valid.shape[1]]
            if _is_multiple(evidence, sample, asked, added, other):
                row, step = asked[0]
                where = Where((number, row), step, first_step=step)
                return _observed(where, len(asked), cause), count
    return None, count


def _is_multiple(
    evidence: Evidence, sample: Sample, steps: list[list[int]], added: Tensor, made: _Step
) -> bool:
    """Whether it is one discount of some number that the policy gives for the steps ``made``."""
    if len(steps) < _LEAST:
        return False
    told = [unroll_one(evidence.policy, made(sample.rows, *one).reshape(1)) for one in steps]
    mine = torch.stack([added[row, step] for row, step in steps]).double()
    for key in set.intersection(*(set(tensor_keys(one)) for one in told)):
        values = [one.get(key) for one in told]
        if not all(one.is_floating_point() and one.numel() == 1 for one in values):
            continue
        ratio = mine / torch.cat([one.detach().reshape(1).cpu() for one in values]).double()
        spread = float(ratio.max() - ratio.min())
        if 0 < float(ratio.min()) <= 1 + _CLOSE and spread <= _CLOSE * float(ratio.max()):
            return True
    return False


def _followed(evidence: Evidence, sample: Sample) -> _Step:
    """The step behind, as if the episode went on."""
    seen = [key for key in observed(evidence, sample) if key[0] == "next"]
    moved = [*seen, *map(next_key, evidence.policy.carry)]
    return _with(evidence, {key[1:]: key for key in moved})


def _others(evidence: Evidence, sample: Sample) -> list[tuple[_Step, str]]:
    seen = [key for key in observed(evidence, sample) if key[0] == "next"]
    carry = list(evidence.policy.carry)
    shown = {key[1:]: key for key in seen}
    after = {key: next_key(key) for key in carry}
    begun = _with(evidence, after)

    def reset(rows: TensorDictBase, row: int, step: int) -> TensorDictBase:
        made = begun(rows, row, step)
        for key in shown:
            made.set(key, rows.get(key)[row, step + 1])
        return made

    zeros = _with(evidence, shown, zero=carry)
    return [
        (reset, "it values what the next episode begins with"),
        (_with(evidence, shown), "it starts from the state ahead of the step"),
        (zeros, "it starts from zeros"),
    ]


def _with(evidence: Evidence, moved: dict[Key, Key], zero: list[Key] | None = None) -> _Step:
    def made(rows: TensorDictBase, row: int, step: int) -> TensorDictBase:
        here = rows[row, step].clone()
        for key, source in moved.items():
            here.set(key, rows.get(source)[row, step])
        for key in (*evidence.policy.flags, *(zero or ())):
            here.set(key, torch.zeros_like(here.get(key)))
        return here

    return made


def _observed(where: Where, count: int, cause: str) -> Observation:
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"what is added to the reward of {count} steps that a time limit cut is not the value"
            " of what they observed last"
        ),
        key="next.reward",
        quantity="rewards with the value of something else",
        measured=float(count),
        bound_formula="none",
        where=where,
        cause=cause,
        fix=(
            "value the last observation of the episode that was cut, from the state that its last"
            " step left"
        ),
    )
