"""A value that a loss adds to the reward of steps which end an episode, and that nothing in the
batch moves: that of what the next episode begins with.

A constant that is added to what the network gives once more than there are steps moves the target
as a reward does, by the discount, where its value is what the reward is added to.
"""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import run_loss
from rnncheck.checks.evidence.rewards import paid_more
from rnncheck.checks.evidence.shifted_values import Kind, ShiftedValues
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation
from rnncheck.checks.value.estimates import ended
from rnncheck.pipeline.instruments.distances import SquaredErrors
from rnncheck.results.model import Stage, Where

_SHARES = (0.1, 1.01)  # the discount
_ALIKE = 0.02  # of a share: by how much it may be another one for twice the constant


def added_at_ends(evidence: Evidence, sample: Sample, number: int) -> Observation | None:
    """Of terminated steps that are the last ones of their rows."""
    at = ended(sample, "terminated") & sample.valid
    at[:, :-1] = False
    if not bool(at.any()):
        return None
    for kind, call in _once_more(evidence, sample).items():
        if share := _share(evidence, sample, at, (kind, call)):
            return _observed(number, at, share)
    return None


def _once_more(evidence: Evidence, sample: Sample) -> dict[Kind, int]:
    """Of the kinds of network that give one number for each row in a call, and are called once
    more than there are steps, the number of the last call."""
    rows, steps = sample.valid.shape
    with ShiftedValues() as noted:
        run_loss(evidence, sample, per_element=False)
    sizes = dict[Kind, list[int]]()
    for one in noted.seen:
        sizes.setdefault(one.kind, []).append(one.output.numel())
    return {
        kind: len(found) - 1
        for kind, found in sizes.items()
        if found[-1] == rows and found in ([rows] * (steps + 1), [rows * steps, rows])
    }


def _share(evidence: Evidence, sample: Sample, at: Tensor, call: tuple[Kind, int]) -> float | None:
    """How much the answer to rewards moves with a constant more in what the call gives, as a part
    of what it moves with more rewards; None where that is no discount."""

    def answer(td: TensorDictBase, much: float) -> float:
        totals = [
            _total(evidence, sample, one, call, much) for one in (td, paid_more(sample, td, at))
        ]
        return totals[1] - totals[0]

    usual = answer(sample.td, 0.0)
    paid = answer(paid_more(sample, sample.td, at), 0.0) - usual
    once, twice = (answer(sample.td, much) - usual for much in (1.0, 2.0))
    least, most = _SHARES
    if not paid or not least <= once / paid <= most:
        return None
    return once / paid if abs(twice - 2 * once) <= _ALIKE * abs(twice) else None


def _total(
    evidence: Evidence, sample: Sample, td: TensorDictBase, call: tuple[Kind, int], much: float
) -> float:
    kind, number = call
    with SquaredErrors(), ShiftedValues(kind, much, call=number):
        return float(run_loss(evidence, sample, td, per_element=False).total.detach())


def _observed(number: int, at: Tensor, share: float) -> Observation:
    row, step = at.nonzero()[0].tolist()
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"a value is added to the reward of {int(at.sum())} terminated steps, and what is"
            " observed next there does not move it"
        ),
        key="next.terminated",
        quantity="share of what is valued behind the rows that enters the target of an end",
        measured=share,
        on=f"batch {number}",
        bound_formula="none",
        where=Where((number, row), step, first_step=step),
        cause="what is valued behind an end is what the next episode begins with",
        fix="target = reward + gamma * (~terminated).float() * next_value",
    )
