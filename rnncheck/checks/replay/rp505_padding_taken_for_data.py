"""Padded steps without a mask, or a mask that the loss ignores.

Checks
    Steps of a training batch that were never collected (zeros that a collate function filled in)
    must be covered by a mask: an entry, under whatever key, that parts padding from data. The last
    step of a rollout, repeated until other envs are done, needs none: its flags tell. In either
    case everything that is float is changed at the padded steps, but for what is next to them and
    is the data of the step to their right. The loss must stay the same, and must have no gradient
    at the padded steps behind a row's data; where padding is zeros, more of it may not turn the
    gradient. What the estimator writes for the data of one row must
    not change with the padding of others: a mean or a deviation would count it. Nor may a target
    change with its own row's padding behind the first step of that, which may hold what the last
    one showed next. A loss that fills rows up itself may have no gradient there.

Why it matters
    Padding is data that nobody collected: zero observations with zero rewards, often most of the
    batch.

Says nothing when
    no step is padded, the spec has neither an estimator nor a loss to ask, or the loss leaves it
    to its caller to reduce what it gives for each step.

Fix
    Multiply per-step losses by ``batch["collector", "mask"]`` and divide by its sum, normalise over
    ``advantage[mask]`` alone, or sample ragged slices.

Example
    loss = (per_step * mask).sum() / mask.sum()
"""

from __future__ import annotations

from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.coupling import counts_padding
from rnncheck.checks.evidence.estimator_calls import batches, estimator_of, written
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    LossRun,
    changed_batch,
    copied,
    each_sample,
    float_inputs,
    loss_of,
    run_loss,
)
from rnncheck.checks.evidence.loss_isolation import loss_gradients
from rnncheck.checks.evidence.more_padding import same_with_more, turned_by_more
from rnncheck.checks.evidence.padding_inside import weight_of_padding
from rnncheck.checks.evidence.target_names import target_names
from rnncheck.checks.evidence.traced_steps import inner_gradients
from rnncheck.checks.evidence.training_batches import Mask, Sample, padded
from rnncheck.checks.rule import (
    CouldNotLook,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
    weightiest,
)
from rnncheck.numerics.difference import bits_differ, features, gap
from rnncheck.pipeline.keys import STEP_KEY, Key, dotted, tensor_keys
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

_ROUNDING = 1e-5  # of the largest target: vectorised sums of rewards round over the whole row
_WEIGHT = 1e-6  # of the gradient at the data
_UNREDUCED = (
    "the loss gives one number for each step, and it was not seen which of them its caller leaves"
    " out: reduce it inside the loss"
)
_FILLED = "the loss trains on steps that it has filled rows up with itself"
_FILLED_CAUSE = "the loss averages over all steps of the rows that it makes"
_FILLED_FIX = 'weigh per-step losses with the mask of split_trajectories, ("collector", "mask")'
# Of a rollout that repeats the last step of an env that is done: the flag of that step.
_REPEATED = Mask(("next", "done"), inverted=True)


def run(evidence: Evidence) -> Judgement:
    """Unmasked padding, then the estimator and the loss at masked steps."""
    if not evidence.written(Stage.REPLAY, Stage.ADVANTAGE, Stage.LOSS):
        raise NotApplicable("the spec makes no training batch")
    compared, untold = 0, list[Unanswered]()
    for look in (_unmasked, _estimator, _loss, _inside):
        try:
            finding, count = look(evidence)
        except Unanswered as why:
            untold.append(why)
            continue
        compared += count
        if finding is not None:
            return Judgement((finding,), compared)
    if not compared:
        raise weightiest(untold) or NotApplicable("no step of the training batches is padding")
    return Judgement(
        (), compared, counted(compared, "padded step", "are left out"), unanswered=_open(untold)
    )


def _open(untold: list[Unanswered]) -> tuple[Unanswered, ...]:
    """What is not for want of a stage or of padding."""
    return tuple(why for why in untold if not isinstance(why, NotApplicable))


def _unmasked(evidence: Evidence) -> tuple[Observation | None, int]:
    for number, sample in each_sample(evidence):
        invented = padding(sample)
        if bool(invented.any()):
            return _taken(number, invented), int(sample.valid.sum())
    return None, 0


def _estimator(evidence: Evidence) -> tuple[Observation | None, int]:
    """Whether a statistic of what the estimator writes counts padded steps."""
    if not evidence.written(Stage.ADVANTAGE):
        return None, 0
    estimator_of(evidence)
    compared = 0
    for number, sample in enumerate(batches(evidence)):
        if not sample.masked or sample.mask is None:
            continue
        keys = _contents(sample, sample.mask)
        found = counts_padding(sample, keys, lambda rows, td: written(evidence, rows, td))
        compared += int((~sample.valid).sum())
        if found is not None:
            name, size = found[0], found[1].worst
            return _counted(Stage.ADVANTAGE, number, sample.mask, name, size), compared
        reached = _reached(evidence, sample, keys)
        if reached is not None:
            return _run_on(number, sample.mask, *reached), compared
    return None, compared


def _reached(evidence: Evidence, sample: Sample, keys: list[Key]) -> tuple[str, Tensor] | None:
    """A target, and at which steps ``[rows, steps]`` of the data it changes with what stands
    further on in the padding of their rows: the first step there may hold what the last one showed
    next."""
    far = ~sample.valid
    far[:, 1:] &= ~sample.valid[:, :-1]
    far[:, 0] = False
    if not bool(far.any()):
        return None
    pair = (sample.td, changed_batch(sample, far, keys))
    one, other = (written(evidence, sample, td) for td in pair)
    for name in target_names(evidence, sample):
        if name in one.keys() & other.keys():
            old, new = (made[name].reshape(*far.shape, -1) for made in (one, other))
            limit = _ROUNDING * float(old[sample.valid].abs().max())
            moved = (gap(old, new).amax(-1) > limit) & sample.valid
            if bool(moved.any()):
                return name, moved
    return None


def _loss(evidence: Evidence) -> tuple[Observation | None, int]:
    compared = 0
    for number, sample in each_sample(evidence):
        if not sample.masked:
            continue
        loss, mask = loss_of(evidence), sample.mask or _REPEATED
        keys = _contents(sample, mask)
        run = run_loss(evidence, sample, loss=copied(loss), per_element=False)
        other = without_data(sample, changed_batch(sample, ~sample.valid, keys))
        again = run_loss(evidence, sample, other, loss=copied(loss), per_element=False)
        if _for_each_step(run, sample):
            moved = _moved_at_data(run, again, sample)
            if moved == 0.0:
                raise CouldNotLook(_UNREDUCED)
            return _counted(Stage.LOSS, number, mask, "loss", moved), compared
        base, after = run.total, again.total
        compared += int((~sample.valid).sum())
        size = abs(float(base.detach()) - float(after.detach()))
        limit = 1e-6 * max(abs(float(base.detach())), 1e-6)
        told = size > limit and not same_with_more(evidence, sample, float(base.detach()), limit)
        if told or (size > limit and _values(evidence, sample, float(base.detach()), limit)):
            found = counts_padding(sample, keys, loss_gradients(evidence))
            if found is None:
                return _ignored(number, mask, size), compared
            return _counted(Stage.LOSS, number, mask, "loss", size), compared
        if (weight := _trained_on(evidence, sample)) > 0.0:
            return _weighed(number, mask, weight), compared
        if (turned := turned_by_more(evidence, sample)) > 0.0:
            return _lengthened(number, mask, turned), compared
    return None, compared


def _values(evidence: Evidence, sample: Sample, base: float, limit: float) -> bool:
    """Whether the loss moves with what is observed next in the padding, from the state there, and
    nothing else of it: it takes the value of that for one of the data's, whatever its size."""
    carry = [next_key(key) for key in evidence.policy.carry]
    keys = [key for key in (*observed(evidence, sample), *carry) if key[0] == "next"]
    far = ~sample.valid
    far[:, 1:] &= ~sample.valid[:, :-1]
    other = changed_batch(sample, far, [key for key in keys if key in tensor_keys(sample.rows)])
    run = run_loss(evidence, sample, other, per_element=False)
    return abs(float(run.total.detach()) - base) > limit


def _for_each_step(run: LossRun, sample: Sample) -> bool:
    """Whether the loss leaves it to its caller to reduce its parts."""
    steps = sample.valid.numel()
    return steps > 1 and any(one.numel() == steps for one in run.parts.values())


def _moved_at_data(run: LossRun, again: LossRun, sample: Sample) -> float:
    """By how much a part differs at the steps that are data, 0 for rounding."""
    steps, largest = sample.valid.numel(), 0.0
    for name, one in run.parts.items():
        other = again.parts[name]
        if one.numel() != steps or other.numel() != steps:
            continue
        gaps = gap(one.detach().reshape(steps), other.detach().reshape(steps))
        moved = float(gaps[sample.valid.reshape(steps)].max())
        largest = max(largest, moved if moved > _WEIGHT * float(one.abs().max()) else 0.0)
    return largest


def _inside(evidence: Evidence) -> tuple[Observation | None, int]:
    """Rows that the loss itself fills up."""
    compared = 0
    for number, sample in each_sample(evidence):
        if sample.masked:
            continue
        loss_of(evidence)
        count, weight = weight_of_padding(evidence, sample)
        compared += count
        if weight > _WEIGHT:
            found = _weighed(number, _REPEATED, weight)
            return replace(found, message=_FILLED, cause=_FILLED_CAUSE, fix=_FILLED_FIX), compared
    return None, compared


def _trained_on(evidence: Evidence, sample: Sample) -> float:
    """The largest gradient of the loss at what its recurrent modules read at padded steps behind
    the data of a row; no later step can have handed it back there. Where these are not known, at
    what is observed there: the first of them may hold what the last one of the data showed next."""
    behind = (~sample.valid).flip(1).long().cumprod(1).flip(1).bool()
    largest, found = 0.0, inner_gradients(evidence, sample, sample.td)
    if not found:
        found = loss_gradients(evidence)(sample, sample.td)
        behind[:, 1:] &= behind[:, :-1].clone()
        behind[:, 0] = False
    for value in found.values():
        size = features(value).abs().amax(-1)
        here = float((size * behind).max())
        if here > 1e-6 * float(size.max()):
            largest = max(largest, here)
    return largest


def without_data(sample: Sample, changed: TensorDictBase) -> TensorDictBase:
    """``changed`` with the data put back that masked steps hold: what is next to one, where that is
    the step to its right, and what the step to its left was shown next, where it is that."""
    rows, valid = changed.reshape(sample.rows.shape), sample.valid
    before, behind = ~valid[:, :-1] & valid[:, 1:], valid[:, :-1] & ~valid[:, 1:]
    for key in tensor_keys(rows):
        own = key[1:]
        if key[0] != "next" or own not in tensor_keys(rows) or not bool((before | behind).any()):
            continue
        following, right = sample.rows.get(key)[:, :-1], sample.rows.get(own)[:, 1:]
        if following.shape == right.shape:
            same = ~bits_differ(following, right).reshape(*before.shape, -1).any(-1)
            _put_back(rows, key, slice(None, -1), before & same, following)
            _put_back(rows, own, slice(1, None), behind & same, right)
    return rows.reshape(changed.shape)


def _put_back(rows: TensorDictBase, key: Key, at: slice, where: Tensor, data: Tensor) -> None:
    value = rows.get(key).clone()
    value[:, at][where] = data[where]
    rows.set(key, value)


def _contents(sample: Sample, mask: Mask) -> list[Key]:
    """What is changed at padded steps: all that is float, but for a mask of zeros and ones, and for
    rewards that are zero there: what sums them up means them."""
    found, blank = float_inputs(sample.rows, root=True, following=True), ~sample.valid
    unpaid = {
        key
        for key in found
        if key[0] == "next" and key[-1] == "reward" and not bool(sample.rows.get(key)[blank].any())
    }
    return [key for key in found if key != mask.key and key not in unpaid]


def padding(sample: Sample) -> Tensor:
    """Steps that count as data and were never collected, at the ends of rows: ``[rows, steps]``."""
    tag = sample.rows.get(STEP_KEY, None)
    if tag is None or tag.numel() != sample.valid.numel():
        return torch.zeros_like(sample.valid)
    return padded(sample.ids) & sample.valid


def _taken(number: int, invented: Tensor) -> Observation:
    row, step = invented.nonzero()[0].tolist()
    count = int(invented.sum())
    return Observation(
        message=counted(count, "step of a training batch", "were never collected")
        + ", and no mask says so",
        quantity="padded steps taken for data",
        measured=float(count),
        on=f"training batch {number}",
        where=Where((number, row), step, first_step=step),
        cause="short slices were filled up with zeros or copies of their last step",
        fix=(
            'write a mask ("collector", "mask") and use it in the loss, or keep slices ragged with'
            " is_init"
        ),
    )


def _counted(stage: Stage, number: int, mask: Mask, name: str, size: float) -> Observation:
    key, text = dotted(mask.key), mask.text
    what = "the loss" if stage is Stage.LOSS else f"the {name} of steps that are data"
    return Observation(
        stage=stage,
        message=f"{what} changes with what stands at steps of other rows that {key} calls padding",
        key=key,
        quantity=f"change of the {name} when padded steps change",
        measured=size,
        on=f"{'training batch' if stage is Stage.LOSS else 'batch'} {number}",
        bound_formula=f"none, up to {'1e-6' if stage is Stage.LOSS else '1e-5'} of it",
        cause="a normalisation, or another statistic of the batch, counts padded steps",
        fix=f"take mean and deviation over the data alone: value[{text}].mean(), .std()",
    )


def _run_on(number: int, mask: Mask, name: str, moved: Tensor) -> Observation:
    row, step = moved.nonzero()[0].tolist()
    return Observation(
        stage=Stage.ADVANTAGE,
        message=(
            f"the {name} of {counted(int(moved.sum()), 'step')} of data changes with what stands in"
            f" the padding of their rows, as {dotted(mask.key)} tells it"
        ),
        key=dotted(mask.key),
        quantity=f"steps whose {name} changes when padded steps change",
        measured=float(moved.sum()),
        on=f"batch {number}",
        bound_formula="none, up to 1e-5 of it",
        where=Where((number, row), step, first_step=step),
        cause="rows that were cut inside of an episode are estimated on into their padding",
        fix="estimate ahead of split_trajectories, or mark the last step of each row as truncated",
    )


def _ignored(number: int, mask: Mask, size: float) -> Observation:
    key = dotted(mask.key)
    return Observation(
        stage=Stage.LOSS,
        message=f"the loss changes with what stands at steps that {key} calls padding",
        key=key,
        quantity="change of the loss when padded steps change",
        measured=size,
        on=f"training batch {number}",
        bound_formula="none, up to 1e-6 of the loss",
        cause=f"the loss averages over all steps without looking at {key}",
        fix=f"weigh per-step losses with {mask.text}, or sample ragged slices",
    )


def _weighed(number: int, mask: Mask, size: float) -> Observation:
    return replace(
        _ignored(number, mask, size),
        message=f"the loss trains on steps that {dotted(mask.key)} calls padding",
        quantity="gradient of the loss at padded steps",
        bound_formula="none, up to 1e-6 of the gradient at the data",
    )


def _lengthened(number: int, mask: Mask, size: float) -> Observation:
    return replace(
        _ignored(number, mask, size),
        message=f"the loss learns something else with more steps that {dotted(mask.key)} calls"
        " padding",
        quantity="change of the gradient's direction with more padding",
        bound_formula="none, up to 1e-3 of the gradient",
        cause="a mean, a deviation or another statistic counts padded steps",
        fix=f"take it over the data alone: value[{mask.text}].mean(), or divide by the mask's sum",
    )


RULE = Rule(
    code="RP505",
    name="padding-taken-for-data",
    holds="no padded step is taken for data",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY,),
)
