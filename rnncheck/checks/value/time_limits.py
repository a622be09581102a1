"""Steps that a time limit cut, after which a loss expects nothing: it takes its ends from done,
which does not tell a limit from an end."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.estimator_calls import batches
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, loss_of
from rnncheck.checks.evidence.rewards import reward_keys
from rnncheck.checks.evidence.shown_next import shown_next
from rnncheck.checks.evidence.target_names import target_names
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Observation, Unanswered
from rnncheck.checks.value.estimates import ended, per_step
from rnncheck.checks.value.terminal_targets import SEEDS, answer_moves
from rnncheck.numerics.difference import gap
from rnncheck.pipeline.keys import REWARD_ADDED, Key, tensor_keys
from rnncheck.printable import counted
from rnncheck.results.model import Stage, Where

_ROUNDING = 1e-5  # of the largest entry: vectorised sums of rewards round over the whole row
_DONE: Key = ("next", "done")


def limits_taken_for_ends(evidence: Evidence) -> tuple[Observation, int] | None:
    """What the first batch shows whose cut steps have no target behind them, and at how many: of
    the estimator, then of the loss."""
    return _by_the_estimator(evidence) or _by_the_loss(evidence)


def _by_the_estimator(evidence: Evidence) -> tuple[Observation, int] | None:
    try:
        for number, sample in enumerate(batches(evidence)):
            cut = _cut(evidence, sample)
            if bool(cut.any()) and _estimates_end_there(evidence, sample, cut):
                return _taken(number, cut, Stage.ADVANTAGE), int(cut.sum())
    except Unanswered:  # why it cannot be asked is told where the targets are judged
        return None
    return None


def _by_the_loss(evidence: Evidence) -> tuple[Observation, int] | None:
    try:
        loss_of(evidence)
        for number, sample in each_sample(evidence):
            cut = _cut(evidence, sample)
            if bool(cut.any()) and _ends_there(evidence, sample, cut):
                return _taken(number, cut, Stage.LOSS), int(cut.sum())
    except Unanswered:  # why it cannot be asked is told where the loss is judged
        return None
    return None


def _cut(evidence: Evidence, sample: Sample) -> Tensor:
    """``[rows, steps]``: what a limit cut and done tells, where rewards are read."""
    if _DONE not in tensor_keys(sample.rows) or not reward_keys(sample.td):
        return torch.zeros_like(sample.valid)
    cut, over = (_flagged(evidence, sample, name) for name in ("truncated", "terminated"))
    if (added := sample.rows.get(REWARD_ADDED, None)) is not None:  # a value that stands for it
        cut &= added.reshape(cut.shape) == 0
    return cut & ~over & ended(sample, "done")


def _flagged(evidence: Evidence, sample: Sample, name: str) -> Tensor:
    """``[rows, steps]``: the flag as the batch has it, or as it was collected where the batch has
    it not."""
    column = sample.steps.column(("next", name))
    if ("next", name) in tensor_keys(sample.rows) or column is None:
        return ended(sample, name)
    return column[shown_next(evidence, sample)].flatten(2).any(-1) & sample.known


def _estimates_end_there(evidence: Evidence, sample: Sample, cut: Tensor) -> bool:
    """As for a loss."""
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    pair = [sample.td, changed_batch(sample, cut, keys)]
    if _targets_differ(evidence, sample, pair, cut):
        return False
    return _targets_differ(evidence, sample, [_going_on(sample, td, cut) for td in pair], cut)


def _targets_differ(
    evidence: Evidence, sample: Sample, pair: list[TensorDictBase], at: Tensor
) -> bool:
    one, other = (per_step(evidence, sample, td) for td in pair)
    for name in one.keys() & other.keys() & set(target_names(evidence, sample)):
        old, new = (made[name].reshape(*at.shape, -1) for made in (one, other))
        limit = _ROUNDING * float(old.abs().max())
        if bool((gap(old, new).amax(-1) > limit)[at].any()):
            return True
    return False


def _ends_there(evidence: Evidence, sample: Sample, cut: Tensor) -> bool:
    """Whether the target there moves with what is observed next once done is false, and does not as
    it is."""
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    for seed in SEEDS:
        batches = [sample.td, changed_batch(sample, cut, keys, seed=seed)]
        as_it_is = answer_moves(evidence, sample, batches, cut, fine=True)
        if not as_it_is.told or as_it_is.size:
            return False
        going = [_going_on(sample, td, cut) for td in batches]
        if answer_moves(evidence, sample, going, cut, fine=True).size:
            return True
    return False


def _going_on(sample: Sample, td: TensorDictBase, cut: Tensor) -> TensorDictBase:
    """The batch with done false there."""
    rows = td.reshape(sample.rows.shape).clone()
    done = rows.get(_DONE)
    rows.set(_DONE, done & ~cut.reshape(*cut.shape, *[1] * (done.ndim - 2)))
    return rows.reshape(sample.td.shape)


def _taken(number: int, cut: Tensor, stage: Stage) -> Observation:
    row, step = cut.nonzero()[0].tolist()
    who = "loss expects" if stage is Stage.LOSS else "estimated targets have"
    return Observation(
        stage=stage,
        message=(
            f"{counted(int(cut.sum()), 'step')} that a time limit cut are trained on as ends: the"
            f" {who} nothing behind next.done"
        ),
        key="next.done",
        quantity="truncated steps whose target has nothing of what is observed behind them",
        measured=float(cut.sum()),
        bound_formula="none beyond 1e-5 of the largest target or loss",
        where=Where((number, row), step, first_step=step),
        cause=f"the {'loss' if stage is Stage.LOSS else 'estimator'} takes its ends from done,"
        " which a time limit sets as well",
        fix=(
            "keep terminated apart from truncated and end targets with terminated alone; a task"
            " that ends with its time may show that time"
        ),
    )
