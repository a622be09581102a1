"""Whether what the ``batch`` factory makes of rewards stands at the steps that it was made for.

Asked by experiment: the factory runs again on samples in which the reward of a single step is
another one. What moves with it belongs to that step's episode, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.burn_in_by_maker import made_again
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, loss_of, run_loss
from rnncheck.checks.evidence.training_batches import Sample, make_sample
from rnncheck.checks.rule import Unanswered
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import STEP_KEY, Key, tensor_keys
from rnncheck.pipeline.recording.batch_makers import Maker
from rnncheck.pipeline.recording.recording import Joint

ASKED = 6  # steps whose reward is changed, each in a run of its own
LEAST = 3  # of these that must tell the same, so that no chance does
COUPLED = 0.9  # share of all steps that move: a statistic of the batch, which tells nothing
OTHERS = 2  # with these many rows the mean of the others' is that of another


@dataclass(frozen=True)
class MadeElsewhere:
    """``key`` moves with the reward of ``asked`` single steps at ``count`` steps of others."""

    key: Key
    asked: int
    count: int
    row: int
    step: int
    own: bool  # it moves in the step's own episode too: a sum goes on over an end


def made_elsewhere(evidence: Evidence) -> MadeElsewhere | None:
    """The first entry of a ``batch`` factory's that the loss reads and that stands elsewhere."""
    found = (_look(evidence, one) for one in evidence.pipeline.makers if one.name == "batch")
    return next((one for one in found if one is not None), None)


def _look(evidence: Evidence, maker: Maker) -> MadeElsewhere | None:
    if maker.given.batch_dims == 0:
        return None
    given = make_sample(evidence, maker.given)
    made, repeat = (made_again(evidence, maker, maker.given) for _ in range(2))
    if made is None or repeat is None or not bool(made.known.any()):
        return None
    keys = [key for key in _new(given, made) if not _differ(made, repeat, key).any()]
    asked = list(_trials(evidence, maker, given)) if keys else []
    for key in keys:
        found = _judged(key, made, asked)
        if found is not None and _is_read(evidence, made, key):
            return found
    return None


def _new(given: Sample, made: Sample) -> list[Key]:
    """Numbers of each step that the factory adds."""
    before = set(tensor_keys(given.rows))
    return [
        key
        for key in tensor_keys(made.rows)
        if key not in before
        and key != STEP_KEY
        and made.rows.get(key).is_floating_point()
        and made.rows.get(key).numel() == made.valid.numel()
    ]


def _trials(evidence: Evidence, maker: Maker, given: Sample) -> Iterator[tuple[int, Sample]]:
    """Numbers of collected steps, and what is made where the reward of that step is another."""
    rewards = [k for k in tensor_keys(given.rows) if k[0] == "next" and k[-1] == "reward"]
    places = given.known.nonzero()
    some = torch.linspace(0, len(places) - 1, ASKED + 2).long().unique()[1:-1]
    for row, step in places[some].tolist() if len(places) > ASKED else ():
        alone = torch.zeros_like(given.valid)
        alone[row, step] = True
        made = made_again(evidence, maker, changed_batch(given, alone, rewards))
        if made is not None:
            yield int(given.ids[row, step]), made


def _judged(key: Key, made: Sample, asked: list[tuple[int, Sample]]) -> MadeElsewhere | None:
    """What the trials say together: the entry moves in one other row alone, where it moves
    elsewhere at all, or in all of them also in episodes before the step's own in its row."""
    found = list[_Moved]()
    for number, changed in asked:
        if changed.ids.shape != made.ids.shape or not torch.equal(changed.ids, made.ids):
            return None
        one = _moved(key, made, changed, number)
        if one is not None:
            found.append(one)
    wrong = [one for one in found if bool(one.elsewhere.any())]
    own = any(one.own for one in wrong)
    if len(wrong) < LEAST or not all(one.before if own else one.alone for one in wrong):
        return None
    row, step = wrong[0].elsewhere.nonzero()[0].tolist()
    count = sum(int(one.elsewhere.sum()) for one in wrong)
    return MadeElsewhere(key, len(wrong), count, row, step, own)


@dataclass(frozen=True)
class _Moved:
    """What moves with the reward of one step, beside its own episode."""

    own: bool  # something of its own episode moves
    elsewhere: Tensor  # ``[rows, steps]``
    alone: bool  # all of that is in one row, of several others, and nothing of its own moves
    before: bool  # all of that is in the row of the step's episode, before it


def _moved(key: Key, made: Sample, changed: Sample, number: int) -> _Moved | None:
    """None where nothing moves, or nearly everything."""
    episodes = _episodes(made)
    of_steps = torch.where(made.known, episodes[made.ids.clamp_min(0)], -1)
    moved, here = _differ(made, changed, key) & made.known, of_steps == episodes[number]
    share = float(moved.sum()) / float(made.known.sum())
    if not bool(here.any()) or not 0 < share < COUPLED:
        return None
    elsewhere = moved & ~here
    in_its_row = here.any(1, keepdim=True) & (here.cumsum(1) == 0)
    own, touched = bool((moved & here).any()), int(elsewhere.any(1).sum())
    return _Moved(
        own=own,
        elsewhere=elsewhere,
        alone=touched == 1 and len(elsewhere) > OTHERS and not own,
        before=not bool((elsewhere & ~in_its_row).any()),
    )


def _episodes(made: Sample) -> Tensor:
    """The episode of each collected step ``[steps]``: one begins where one ended before and the
    memory begins anew, or at a row of its own."""
    steps, numbers = made.steps, list[int]()
    flags = [steps.recording.flag(rows) for rows in steps.recording.batches]
    now = -1
    for batch, row, step in steps.places:
        flag, joint = flags[batch], steps.recording.batches[batch].joints[row, step]
        begins = joint != Joint.CONTINUES and (flag is None or bool(flag[row, step]))
        now += int(step == 0 or begins or joint == Joint.CUT)
        numbers.append(now)
    return torch.tensor(numbers)


def _differ(one: Sample, other: Sample, key: Key) -> Tensor:
    left, right = (sample.rows.get(key, None) for sample in (one, other))
    if left is None or right is None or left.shape != right.shape:
        return torch.ones_like(one.valid)
    return bits_differ(left, right).reshape(*one.valid.shape, -1).any(-1)


def _is_read(evidence: Evidence, made: Sample, key: Key) -> bool:
    """Whether the loss gives another total with other numbers there."""
    try:
        loss_of(evidence)
        here = _total(evidence, made, made.td)
        return not torch.equal(here, _total(evidence, made, changed_batch(made, made.known, [key])))
    except Unanswered:
        return False


def _total(evidence: Evidence, sample: Sample, td: TensorDictBase) -> Tensor:
    return run_loss(evidence, sample, td, per_element=False).total
