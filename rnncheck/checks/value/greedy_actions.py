"""Next values that are taken at the greedy action of another step than their own.

Double Q-learning takes the value of what is observed next, by one network, at the action that
another finds best there. What is observed moves both at the same places, with a memory or without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import without_memory
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import each_sample, run_loss
from rnncheck.checks.evidence.picked_values import Picked, PickedValues
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.same_step import observing
from rnncheck.numerics.difference import bits_differ
from rnncheck.results.model import Stage, Where

_LEAST = 6  # places that must tell
_SEEDS = (3, 4)  # of what is observed instead
_PARTS = 4  # of the rows: where what is observed begins to differ


def greedy_of_another_step(evidence: Evidence) -> Observation | None:
    """A target whose values move with what is observed at one step, and the choice of the actions
    that they are taken at with what is observed at another."""
    try:
        for number, sample in each_sample(evidence):
            if count := _apart(evidence, sample):
                return _observed(number, sample, count)
    except Unanswered:  # a loss that raises is LS706's
        return None
    return None


def _apart(evidence: Evidence, sample: Sample) -> int:
    """How many values were seen to move where the choice of their action does not, or it alone,
    though other changes move both."""
    usual = _picked(evidence, sample, sample.td)
    looks = {place: list[_Moved]() for place in _targets(usual)}
    for at in _changes(sample) if looks else ():
        there = [_picked(evidence, sample, observing(evidence, sample, at, s)) for s in _SEEDS]
        for place in [*looks]:
            moved = _moved(usual, there, place)
            if moved is None:
                del looks[place]
            else:
                looks[place].append(moved)
    counts = [_places(looked) for looked in looks.values()]
    return max((count for count in counts if count >= _LEAST), default=0)


def _targets(picked: list[Picked]) -> list[int]:
    """Which of them have no graph, are picked at the largest of others, and have the width of some
    that have a graph: where the recorded actions' values are taken."""
    trained = {one.values.shape[-1] for one in picked if one.graphed}
    return [
        place
        for place, one in enumerate(picked)
        if not one.graphed and one.scores is not None and one.values.shape[-1] in trained
    ]


@dataclass(frozen=True)
class _Moved:
    """Of each place, whether its values moved, and whether the scores of its action did."""

    values: Tensor
    scores: Tensor


def _places(looked: list[_Moved]) -> int:
    values = torch.stack([one.values for one in looked])
    scores = torch.stack([one.scores for one in looked])
    return int(((values ^ scores) & values.any(0) & scores.any(0)).sum())


def _moved(usual: list[Picked], others: list[list[Picked]], place: int) -> _Moved | None:
    """None where the calls cannot be compared, or each change moves others: what is clipped or
    rounded away tells nothing of a step."""
    found = list[_Moved]()
    for picked in others:
        if len(picked) != len(usual):
            return None
        one, other = usual[place], picked[place]
        if one.scores is None or other.scores is None:
            return None
        pairs = ((one.values, other.values), (one.scores, other.scores))
        if any(here.shape != now.shape for here, now in pairs):
            return None
        values, scores = (bits_differ(*pair).any(-1) for pair in pairs)
        found.append(_Moved(values, scores))
    first, *more = found
    alike = all(
        torch.equal(first.values, one.values) and torch.equal(first.scores, one.scores)
        for one in more
    )
    return first if alike else None


def _changes(sample: Sample) -> Iterator[Tensor]:
    """Steps at which something else is observed: every other one, which tells where no memory is
    left; and all from some step on, since a memory hands nothing back. Of steps that begin an
    episode none where others are ahead of them in their row: what is taken there for what follows
    an end is masked."""
    steps = torch.arange(sample.valid.shape[1])
    begins = sample.valid & ~sample.follows
    begins[:, 0] = False
    for parity in (0, 1):
        yield sample.valid & ~begins & (steps % 2 == parity)
    if bool(begins.any()):
        return
    for start in sorted({len(steps) * part // _PARTS for part in range(1, _PARTS)} - {0}):
        yield sample.valid & (steps >= start)


def _picked(evidence: Evidence, sample: Sample, td: TensorDictBase) -> list[Picked]:
    found = list[Picked]()

    def noted(sample: Sample, batch: TensorDictBase) -> dict[str, Tensor]:
        with PickedValues() as picked:
            run_loss(evidence, sample, batch, per_element=False)
        found[:] = picked.seen
        return {}

    without_memory(noted)(sample, td)
    return found


def _observed(number: int, sample: Sample, count: int) -> Observation:
    row, step = sample.valid.nonzero()[0].tolist()
    return Observation(
        stage=Stage.LOSS,
        message=(
            "the loss's target takes the values of one step at the greedy actions of another one"
        ),
        key="value_target",
        quantity="values that move with another step than the choice of their action",
        measured=float(count),
        on=f"batch {number}",
        bound_formula="none",
        where=Where((number, row), step, first_step=step),
        cause="the values and the actions that pick them are cut from the rows one step apart",
        fix="take both of what is observed next: q_target(next).gather(-1, q(next).argmax(-1))",
    )
