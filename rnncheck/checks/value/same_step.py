"""Targets that are made of the value of the step itself, in the place of the next one's.

All is asked of the memoryless twin, in which the value of a step depends on that step alone: what
is observed at step t belongs to the target of step t-1, and not to its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import (
    Elements,
    observed,
    paid,
    tokens,
    with_leaves,
    without_memory,
)
from rnncheck.checks.evidence.estimator_calls import batches, made_by, value_key
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, each_sample, loss_of, run_loss
from rnncheck.checks.evidence.rewards import paid_more, reward_keys
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Observation, Unanswered
from rnncheck.checks.value.estimates import ended, per_step, valuing
from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.instruments.distances import SquaredErrors
from rnncheck.pipeline.keys import Key, dotted, present, tensor_keys
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage, Where

_ROUNDING = 1e-5  # of the largest target or loss: vectorised sums of rewards round over the row
_ROUNDS = 4  # steps of each segment that are tried, one at a time
_LEAST = 6  # steps that must tell
_SEEDS = (3, 4, 5)  # of what is observed instead, until one tells
_TELLING = 10  # roundings: what the step's own observation must move
_CROSSED = 1e-2  # of what the step's own observation moves: a next value moves with its own as much
_WHOLE = 1.01  # the largest share: a discount of 1, rounded
_ALIKE = 1e-2  # of the largest change: how far a step's share may be from that of all
_OVER = (("next", "terminated"), ("next", "done"))


@dataclass(frozen=True)
class OwnStep:
    """Where a target was found to follow its own step: batch, first place, steps, and by how much
    it moved."""

    number: int
    row: int
    step: int
    steps: int
    moved: float


def own_step(evidence: Evidence) -> Observation | None:
    """A target that follows the value of its own step: no pass over next steps is there to see."""
    found, stage = estimates_of_own_step(evidence), Stage.ADVANTAGE
    if found is None:
        found, stage = loss_of_own_step(evidence), Stage.LOSS
    if found is None:
        return None
    return Observation(
        stage=stage,
        message=(
            f"the target of {found.steps} steps is made of the value of the same step: what is"
            " observed next does not enter it"
        ),
        key="value_target",
        quantity=(
            "change of the target with the observation of its own step, without memory"
            if stage is Stage.ADVANTAGE
            else "change of the loss's answer to rewards, where an end takes the next value away"
        ),
        measured=found.moved,
        on=f"batch {found.number}",
        bound_formula="none beyond 1e-5 of the largest target or loss",
        where=Where((found.number, found.row), found.step, first_step=found.step),
        cause="the value network is run on the step's own observation, where the next one belongs",
        fix="evaluate ('next', observation), from the state behind the step",
    )


def estimates_of_own_step(evidence: Evidence) -> OwnStep | None:
    """An estimator whose targets move with the value of their own step, all of them by the same
    share of it, and not with any next observation."""
    try:
        samples = batches(evidence)
        for number, sample in enumerate(samples):
            for told in (_follows_own, _bootstraps_from_own):
                if (found := told(evidence, sample, number)) is not None:
                    return found
    except Unanswered:
        return None
    return None


def _follows_own(evidence: Evidence, sample: Sample, number: int) -> OwnStep | None:
    base = _twin(evidence, sample, sample.td)
    following = [next_key(key) for key in entries_of(evidence, sample)]
    going_on = changed_batch(sample, goes_on(sample), present(sample.rows, following))
    if base is None or (moved := _twin(evidence, sample, going_on)) is None:
        return None
    limit = _ROUNDING * float(base.target.abs().max())
    if bool(((moved.target - base.target).abs() > limit).any()):
        return None
    own, value, places = list[Tensor](), list[Tensor](), list[Tensor]()
    for at in _tried(sample):
        here = _twin(evidence, sample, changed_batch(sample, at, entries_of(evidence, sample)))
        if here is None:
            return None
        own.append((here.target - base.target)[at])
        value.append((here.value - base.value)[at])
        places.append(at.nonzero())
    if not own or not _one_share(torch.cat(own), torch.cat(value), limit):
        return None
    row, step = places[0][0].tolist()
    moves = torch.cat(own).abs()
    return OwnStep(number, row, step, int((moves > limit).sum()), float(moves.max()))


def _bootstraps_from_own(evidence: Evidence, sample: Sample, number: int) -> OwnStep | None:
    """The same of lines of the user's own, whatever they call what they make: what an end takes
    away from it is the next value. Where that moves with what is observed at the step, and not with
    what is observed next, it is another one."""
    steps, worst, first = 0, 0.0, list[int]()
    for parity in (0, 1) if made_by(evidence) else ():
        at = goes_on(sample) & (torch.arange(sample.valid.shape[1]) % 2 == parity)
        behind = torch.zeros_like(at)
        behind[:, 1:] = at[:, :-1]
        if not bool(at.any()):
            continue
        usual, following, own = (
            _taken_away(evidence, sample, td, at)
            for td in (sample.td, observing(evidence, sample, behind), _seen(sample, at))
        )
        names = [
            name
            for name, one in usual.items()
            if bool(one.any()) and not _moves(one, following[name]) and _moves(one, own[name])
        ]
        if not names:
            return None
        moved = (own[names[0]] - usual[names[0]]).abs()
        steps, worst = steps + int((moved > 0).sum()), max(worst, float(moved.max()))
        first = first or at.nonzero()[0].tolist()
    return OwnStep(number, first[0], first[1], steps, worst) if steps >= _LEAST else None


def _moves(one: Tensor, other: Tensor) -> bool:
    return bool(((other - one).abs() > _ROUNDING * float(one.abs().max())).any())


def _taken_away(
    evidence: Evidence, sample: Sample, td: TensorDictBase, at: Tensor
) -> dict[str, Tensor]:
    """By what is made, how much it is less at ``at`` where the steps are terminated."""
    here = per_step(evidence, sample, td)
    rows = replace(sample, rows=_rows(sample, td))
    over = per_step(evidence, sample, _over(rows, at, _OVER[:1]))
    names = [name for name in map(dotted, made_by(evidence)) if name in here.keys() & over.keys()]
    return {
        name: (here[name] - over[name]).reshape(*at.shape, -1).amax(-1).double()[at]
        for name in names
    }


def _env_keys(sample: Sample) -> list[Key]:
    """What the env shows at each step, and shows next."""
    given = set(tensor_keys(sample.rows))
    return [
        key
        for key in given
        if next_key(key) in given
        and key[0] != "next"
        and sample.rows.get(key).is_floating_point()
        and key not in sample.steps.recording.subject.carry
    ]


def _seen(sample: Sample, at: Tensor) -> TensorDictBase:
    """The batch with something else observed at ``at``."""
    return changed_batch(sample, at, _env_keys(sample), seed=_SEEDS[0])


def _one_share(own: Tensor, value: Tensor, limit: float) -> bool:
    """The targets move by one positive share of what the values do. An importance weight, which
    depends on its own step as well, gives every step another one."""
    if int((own.abs() > limit).sum()) < _LEAST:
        return False
    share = float((own * value).sum() / value.square().sum())
    return 0 < share <= _WHOLE and float((own - share * value).abs().max()) <= max(
        limit, _ALIKE * float(own.abs().max())
    )


@dataclass(frozen=True)
class _Twin:
    """Targets and values without memory, ``[rows, steps]``."""

    target: Tensor
    value: Tensor


def _twin(evidence: Evidence, sample: Sample, td: TensorDictBase) -> _Twin | None:
    """None where the estimator gives no single target for each step."""
    name = dotted(value_key(evidence))

    def found(sample: Sample, batch: TensorDictBase) -> dict[str, Tensor]:
        out = per_step(evidence, sample, batch)
        return out if name in out else out | {name: _valued(evidence, sample, batch)}

    out = without_memory(found)(sample, td)
    target, value = out.get("value_target"), out[name]
    if target is None and "advantage" in out and out["advantage"].shape == value.shape:
        target = out["advantage"] + value
    if target is None or target.shape != value.shape or target[0, 0].numel() != 1:
        return None
    return _Twin(target.flatten(1).double(), value.flatten(1).double())


def _valued(evidence: Evidence, sample: Sample, td: TensorDictBase) -> Tensor:
    """What the critic gives, where the estimator writes no value."""
    key = value_key(evidence)
    subject = valuing(evidence, key)
    try:
        value: Tensor = run_recurrent(subject, td).get(key)
    except Exception as error:
        raise CouldNotLook(f"the {subject.stage} raises ({reason_of(error)})") from error
    return value.reshape(*sample.rows.shape, *value.shape[td.batch_dims :])


def entries_of(evidence: Evidence, sample: Sample) -> list[Key]:
    """What is observed of a step, and a value that was recorded with it."""
    keys = [key for key in observed(evidence, sample) if key[0] != "next"]
    return [*keys, *present(sample.rows, [value_key(evidence)])]


def goes_on(sample: Sample) -> Tensor:
    """Steps whose next one is in the batch, of the same episode."""
    found = torch.zeros_like(sample.valid)
    found[:, :-1] = sample.follows[:, 1:] & ~ended(sample, "done")[:, :-1]
    return found


def _tried(sample: Sample) -> Iterable[Tensor]:
    """Steps inside segments, one of each segment at a time: the second, the third and so on."""
    inside = sample.follows & ~ended(sample, "done") & sample.valid
    count, positions = torch.zeros(len(inside), dtype=torch.long), torch.zeros_like(sample.ids)
    for t in range(inside.shape[1]):
        count = torch.where(sample.follows[:, t], count + 1, 0)
        positions[:, t] = count
    found = (inside & (positions == n) for n in range(1, _ROUNDS + 1))
    return [at for at in found if bool(at.any())]


def observing(
    evidence: Evidence, sample: Sample, at: Tensor, seed: int = _SEEDS[0]
) -> TensorDictBase:
    """The batch with something else observed, and valued, at ``at``: there, and under ``next`` of
    the step before."""
    keys = entries_of(evidence, sample)
    rows = changed_batch(sample, at, keys, seed=seed).reshape(sample.rows.shape)
    for key in keys:
        if present(sample.rows, [next_key(key)]):
            following = rows.get(next_key(key)).clone()
            behind = at[:, 1:]
            following[:, :-1][behind] = rows.get(key)[:, 1:][behind].to(following.dtype)
            rows.set(next_key(key), following)
    return rows.reshape(sample.td.shape)


def loss_of_own_step(evidence: Evidence) -> OwnStep | None:
    """A loss whose target has a next value, which an end takes away, and which no next observation
    moves."""
    try:
        loss_of(evidence)
        samples = each_sample(evidence)
        for number, sample in samples:
            if (found := _ignores_next(evidence, sample, number)) is not None:
                return found
    except Unanswered:  # a loss that raises is LS706's
        return None
    return None


def _ignores_next(evidence: Evidence, sample: Sample, number: int) -> OwnStep | None:
    """None too where the step's own observation moves no more behind an end: values that hardly
    depend on what is observed, and a loss that is linear in its errors, as smooth L1 is in large
    ones, tell nothing. Where no end stands, a step's own value all but cancels in its target."""
    going = goes_on(sample)
    if not reward_keys(sample.td):
        return None
    steps, worst, first = 0, 0.0, list[int]()
    for parity in (0, 1):
        at = going & (torch.arange(going.shape[1]) % 2 == parity)
        if not bool(at.any()):
            continue
        whole = answer_of(evidence, sample, sample.td, at)
        over = answer_of(evidence, sample, _over(sample, at), at)
        limit = _ROUNDING * max(abs(whole), abs(over))
        if not over or abs(over - whole) <= limit:
            return None
        if not _own_alone(evidence, sample, at, (whole, over), limit):
            return None
        steps, worst = steps + int(at.sum()), max(worst, abs(over - whole))
        first = first or at.nonzero()[0].tolist()
    return OwnStep(number, first[0], first[1], steps, worst) if steps >= _LEAST else None


def _own_alone(
    evidence: Evidence, sample: Sample, at: Tensor, answers: tuple[float, float], limit: float
) -> bool:
    """Whether the answer moves with what is observed at ``at``, and not with what follows. Moves of
    many steps may cancel, so that one change of all does not tell."""
    whole, over = answers
    following = torch.zeros_like(at)
    following[:, 1:] = at[:, :-1]
    # A network that is shown the reward of the step before it takes it with what is observed next.
    crossed = _CROSSED if any("reward" in key[-1] for key in evidence.policy.reads) else 0.0
    for seed in _SEEDS:
        moved = answer_of(evidence, sample, observing(evidence, sample, following, seed), at)
        here = replace(sample, rows=_rows(sample, observing(evidence, sample, at, seed)))
        own = abs(answer_of(evidence, sample, _over(here, at), at) - over)
        if abs(moved - whole) > max(limit, crossed * own):
            return False
        if own > _TELLING * limit:
            return True
    return False


def _rows(sample: Sample, td: TensorDictBase) -> TensorDictBase:
    return td.reshape(sample.rows.shape)


def answer_of(evidence: Evidence, sample: Sample, td: TensorDictBase, at: Tensor) -> float:
    """How much the memoryless twin's loss moves when the rewards at ``at`` do: for a squared error
    that is the sum of the errors there."""
    return answer(without_memory(squared_total(evidence)), sample, td, at)


def answer(alone: Elements, sample: Sample, td: TensorDictBase, at: Tensor) -> float:
    """The same of what ``alone`` gives, under the empty name."""
    more = paid_more(sample, td, at)
    return float(alone(sample, more)[""] - alone(sample, td)[""])


def squared_total(evidence: Evidence) -> Elements:
    """The loss, with a squared error in the place of each that is of another form."""

    def total(sample: Sample, batch: TensorDictBase) -> dict[str, Tensor]:
        with SquaredErrors():
            given, _ = with_leaves(evidence, sample, batch)
            run = run_loss(evidence, sample, given, per_element=False)
        return {"": run.total.detach().double()}

    return total


def _over(sample: Sample, at: Tensor, flags: Collection[Key] = _OVER) -> TensorDictBase:
    return over_at(sample, sample.rows, at, flags)


def over_at(
    sample: Sample, td: TensorDictBase, at: Tensor, flags: Collection[Key] = _OVER
) -> TensorDictBase:
    """The batch ``td`` with episodes that end at ``at``."""
    rows = td.reshape(sample.rows.shape).clone()
    for key in flags:
        if key in tensor_keys(rows):
            flag = rows.get(key)
            wide = at.reshape(*at.shape, *([1] * (flag.ndim - 2)))
            rows.set(key, flag | wide)
    return rows.reshape(sample.td.shape)


def reads_nothing_next(evidence: Evidence) -> bool:
    """Whether there is no target that next values enter: no estimator but the user's own, and what
    that makes no next observation changes; no number in the training batch that something else has
    made for each step, unless it is judged with another loss; and a loss that no next observation
    changes."""
    try:
        own = made_by(evidence)
        if evidence.written(Stage.ADVANTAGE) and not own:
            return False
        if own and not all(_estimates_none(evidence, sample) for sample in batches(evidence)):
            return False
        return all(_reads_none(evidence, sample, own) for _, sample in each_sample(evidence))
    except Unanswered:
        return False


def _estimates_none(evidence: Evidence, sample: Sample) -> bool:
    seen = [key for key in observed(evidence, sample) if key[0] == "next"]
    following = present(sample.rows, seen)
    everywhere = changed_batch(sample, torch.ones_like(sample.valid), following)
    one, two = (per_step(evidence, sample, td) for td in (sample.td, everywhere))
    return bool(following) and all(torch.equal(one[name], two[name]) for name in one)


def _reads_none(evidence: Evidence, sample: Sample, own: Collection[Key]) -> bool:
    made = [key for key in paid(evidence, sample) if key[0] != "next" and key not in own]
    elsewhere = any(one.written(Stage.ADVANTAGE) for one in evidence.others)
    if not elsewhere and any(sample.steps.column(key) is None for key in made):
        return False
    seen = [*observed(evidence, sample), *map(next_key, tokens(evidence, sample))]
    following = present(sample.rows, dict.fromkeys(key for key in seen if key[0] == "next"))
    everywhere = changed_batch(sample, torch.ones_like(sample.valid), following)
    one, two = (
        run_loss(evidence, sample, td, per_element=False).total for td in (sample.td, everywhere)
    )
    return bool(following) and torch.equal(one, two)
