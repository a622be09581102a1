"""The batch's loss is not made of its slices' losses.

Checks
    The slices of a training batch (the rows of a [B, T] batch) are put into another order: the loss
    must stay the same. And the loss of a batch with several segments is compared with the losses of
    the segments, each given alone with its own stored state: it must be their mean weighted by
    length, their plain mean, or their sum. Where the memoryless twin differs from all three as
    well, or a statistic of the batch moves every segment's gradient (normalised advantages), the
    loss couples samples by nature and is not blamed.

Why it matters
    A loss over concatenated slices should be what it would be slice by slice. If it is not,
    something passes between them that is no gradient, or some slices count more than others because
    of where they happen to lie.

Says nothing when
    the segments leak already (LS701, RP501), the loss draws random numbers or shuffles the slices
    into minibatches itself, or it needs a fixed number of steps. Slices that count alike whatever
    their length are taken to be meant, and remarked.

Fix
    See LS701; weight slices by their lengths, and normalise over features or over the whole data
    set.

Example
    loss = (per_step * mask).sum() / mask.sum()
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import segments_of
from rnncheck.checks.evidence.credited_steps import rewards
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.left_out import loss_leaves_out
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    each_sample,
    loss_of,
    memoryless_batch,
    run_loss,
)
from rnncheck.checks.evidence.loss_isolation import (
    coupled_by_statistics,
    loss_leaks,
    policy_leaks,
    repeatable,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.evidence.unmarked_joins import crosses
from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
)
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.instruments.shuffles import nothing_shuffled
from rnncheck.results.model import Severity, Stage

_LIMIT = 1e-4  # relative: sums over other numbers of terms round differently
SHUFFLED = "the loss shuffles the slices itself: which of them share a minibatch is drawn"
NATURE = "the loss couples the samples of a batch by nature"


def run(evidence: Evidence) -> Judgement:
    """Whole batches in another order, and against their segments."""
    loss_of(evidence)
    sequence = not loss_leaves_out(evidence)
    if sequence and crosses(evidence):
        raise Deferred("the batch joins steps without a mark", "RP501", "RP502", "RP506")
    told = list[str]()
    for number, sample in each_sample(evidence)[:1]:
        order = other_order(sample)
        several = int(segments_of(sample).max()) > 0 and not sample.masked
        if order is None and not several:
            continue
        leaks = (sequence and policy_leaks(evidence, sample)) or loss_leaks(evidence, sample)[0]
        if leaks:
            raise Deferred("the segments leak already", "LS701")
        if not repeatable(evidence, sample):
            with nothing_shuffled():
                if repeatable(evidence, sample):
                    raise NotApplicable(SHUFFLED)
            raise CouldNotLook("the loss draws random numbers")
        if order is not None:
            finding = _reordered(evidence, number, sample, order)
            if finding is not None:
                return _judged(evidence, sample, finding, states=False)
            told.append("the order of the slices does not matter")
        if several:
            finding, said = _made_of(evidence, number, sample, alone=order is None)
            if finding is not None:
                return _judged(evidence, sample, finding)
            told.append(said)
    if not told:
        raise NotApplicable("every row of the training batches is a single segment")
    return Judgement((), len(told), "; ".join(told))


def other_order(sample: Sample) -> Tensor | None:
    """Another order of the batch's rows, or of the slices that a sampler laid end to end; None
    where there is none.

    Steps that were stored one behind the other stay together: their order is the data's own.
    """
    if sample.td.batch_dims == 2:
        together = _rollouts(sample)
        return torch.cat(together[::-1]) if len(together) > 1 else None
    if sample.td.batch_dims != 1 or sample.masked or not bool(sample.known.all()):
        return None
    ids, marked = sample.ids[0], sample.marked[0] if sample.flag is None else sample.flag[0]
    begins = torch.ones_like(marked)
    begins[1:] = ids[1:] != ids[:-1] + 1
    if int(begins.sum()) < 2 or not bool(marked[begins].all()):
        return None
    pieces = torch.arange(len(ids)).tensor_split(begins.nonzero().flatten()[1:])
    return torch.cat(pieces[::-1])


def _rollouts(sample: Sample) -> list[Tensor]:
    """The rows that stay together: each by itself, or those that fill as many steps as a row has,
    as the padded trajectories of one env's rollout do, which a loss may lay in a row again."""
    counts, steps = sample.valid.sum(1), sample.valid.shape[1]
    rows, ends = torch.arange(len(counts)), counts.cumsum(0)
    full = ends % steps == 0
    whole = bool((counts[ends > 0] > 0).all()) and int(full.sum()) == int(ends[-1]) // steps
    if bool((counts == steps).all()) or not whole or not bool(full[-1]):
        return list(rows.split(1))
    return list(rows.tensor_split((full.nonzero().flatten() + 1)[:-1]))


def _judged(
    evidence: Evidence, sample: Sample, finding: Observation, *, states: bool = True
) -> Judgement:
    if beside := _of_rows(evidence, sample, states=states):
        raise CouldNotLook(
            f"the loss is given {beside} beside its batch, with a number for each row, which"
            " stays as it is where rows change places"
        )
    return Judgement((finding,), 1)


def _of_rows(evidence: Evidence, sample: Sample, *, states: bool) -> str:
    loss, shape = loss_of(evidence), sample.valid.shape
    name = loss.of_rows(*shape, states=states) if isinstance(loss, OwnLoss) else ""
    return f"`{name}`" if name and not name.isdigit() else name and "an argument"


def _reordered(
    evidence: Evidence, number: int, sample: Sample, order: Tensor
) -> Observation | None:
    loss, other = (copied(loss_of(evidence)) for _ in range(2))
    if isinstance(other, OwnLoss) and sample.td.batch_dims > 1:
        other.reorder_states(order)
    turned = (loss, sample.td), (other, sample.td[order].contiguous())
    old, new = (
        float(run_loss(evidence, sample, td, loss=one, per_element=False).total)
        for one, td in turned
    )
    if not off(old, new):
        return None
    return _observed(
        number,
        f"the loss of the batch is {old:.6g}, with its slices in another order {new:.6g}",
        quantity="difference of the losses of one batch in two orders of its slices",
        sizes=(old, new),
        cause=(
            "slices count by where they lie in the batch, or something runs on from one to the next"
        ),
    )


@dataclass(frozen=True)
class Sums:
    """The loss of a batch, and three ways in which it may be made of its segments' losses."""

    whole: float
    by_length: float
    mean: float
    total: float


def _made_of(
    evidence: Evidence, number: int, sample: Sample, *, alone: bool
) -> tuple[Observation | None, str]:
    try:
        found = losses(evidence, sample, sample.td)
    except Unanswered:
        if alone:
            raise
        return None, "the loss runs on no slice alone"
    if math.isfinite(found.whole) and not math.isfinite(found.total):  # a deviation of one step
        if alone and not coupled_by_statistics(evidence, sample):
            raise CouldNotLook("the loss gives no finite number for some slice alone")
        return None, "the loss gives no finite number for some slice alone"
    if not off(found.whole, found.by_length):
        return None, "the batch's loss is the mean of its slices' losses"
    if not off(found.whole, found.mean):
        return None, "every slice counts alike, whatever its length"
    if not off(found.whole, found.total):
        return None, "the batch's loss is the sum of its slices' losses"
    twin = losses(evidence, sample, memoryless_batch(sample, sample.td))
    apart = all(off(twin.whole, one) for one in (twin.by_length, twin.mean, twin.total))
    if apart or coupled_by_statistics(evidence, sample):
        return None, NATURE
    if _leaves_out_ends(evidence, sample):
        return None, "the loss leaves out the last step of a row, so of each slice alone"
    finding = _observed(
        number,
        f"the loss of the batch is {found.whole:.6g}, the mean of its slices' losses"
        f" {found.by_length:.6g}",
        quantity="difference of the batch's loss and the mean over its slices",
        sizes=(found.whole, found.by_length),
        cause=(
            "slices are weighted by something else than their length, or share statistics or state"
        ),
    )
    return finding, ""


def losses(evidence: Evidence, sample: Sample, td: TensorDictBase) -> Sums:
    """The loss of the batch, and of its segments alone."""
    loss = loss_of(evidence)
    whole = run_loss(evidence, sample, td, loss=copied(loss), per_element=False).total
    rows, segments = td.reshape(sample.rows.shape), segments_of(sample)
    parts = list[tuple[float, int]]()
    for row in range(segments.shape[0]):
        changes = (segments[row, 1:] != segments[row, :-1]).nonzero().flatten() + 1
        for begin, end in itertools.pairwise([0, *changes.tolist(), segments.shape[1]]):
            part = rows[row : row + 1, begin:end]
            part = part[0] if td.batch_dims == 1 else part
            value = run_loss(evidence, sample, part, loss=copied(loss), per_element=False).total
            parts.append((float(value), end - begin))
    by_length = sum(value * steps for value, steps in parts) / sum(steps for _, steps in parts)
    total = sum(value for value, _ in parts)
    return Sums(float(whole), by_length, total / len(parts), total)


def _leaves_out_ends(evidence: Evidence, sample: Sample) -> bool:
    """Whether the reward of a slice's last step enters the loss of the batch, and not of the slice
    alone: rows that end with a bootstrap have one step less."""
    segments, loss = segments_of(sample), loss_of(evidence)
    ends = (segments[:, 1:] != segments[:, :-1]).nonzero()
    if not len(ends) or not rewards(sample):
        return False
    row, last = ends[0].tolist()
    first = int((segments[row] == segments[row, last]).nonzero()[0])
    at = torch.zeros_like(sample.valid)
    at[row, last] = True
    told = list[bool]()
    for part in ((slice(None), slice(None)), (slice(row, row + 1), slice(first, last + 1))):
        pair = []
        for td in (sample.td, changed_batch(sample, at, rewards(sample))):
            rows = td.reshape(sample.rows.shape)[part]
            given = td if part[0] == slice(None) else (rows[0] if td.batch_dims == 1 else rows)
            pair.append(run_loss(evidence, sample, given, loss=copied(loss), per_element=False))
        told.append(bool(pair[0].total != pair[1].total))
    return told == [True, False]


def off(one: float, other: float) -> bool:
    """Whether the two differ by more than rounding."""
    if not (abs(one) < float("inf") and abs(other) < float("inf")):
        raise Deferred("the loss is not finite", "GR802")
    return abs(one - other) > _LIMIT * max(abs(one), abs(other), 1e-6)


def _observed(
    number: int,
    message: str,
    *,
    quantity: str,
    sizes: tuple[float, float],
    cause: str,
) -> Observation:
    difference = abs(sizes[0] - sizes[1])
    return Observation(
        message=message,
        quantity=quantity,
        measured=difference,
        on=f"training batch {number}",
        bound=_LIMIT * max(map(abs, sizes)),
        bound_formula="1e-4 of the loss",
        cause=cause,
        fix="average over steps; see LS701 for state that passes between slices",
    )


RULE = Rule(
    code="LS704",
    name="loss-differs-per-slice",
    holds="the loss of a batch is made of its slices' losses",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
    dear=True,
)
