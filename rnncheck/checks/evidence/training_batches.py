"""The training batches as evidence: every step traced back to the step that was collected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.recognition import recognised
from rnncheck.checks.evidence.trajectory_replay import Replayed, replayed
from rnncheck.checks.rule import CouldNotLook, NotApplicable
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.numerics.tolerance import SLACK, epsilon
from rnncheck.pipeline.keys import STEP_KEY, Key, tensor_items, tensor_keys
from rnncheck.pipeline.placing import on_cpu, place_of
from rnncheck.pipeline.recording.masks import halted, padding_mask
from rnncheck.pipeline.recording.recording import Joint, Recording
from rnncheck.results.model import Stage

# Weights of a loss may be called so, of whatever dtype, and leave out more than padding.
_MASKS: tuple[Key, ...] = (("mask",), ("valid",), ("padding_mask",), ("validity_mask",))


@dataclass
class Steps:
    """The collected steps by number: batch-major, then row, then time."""

    recording: Recording

    @cached_property
    def places(self) -> list[tuple[int, int, int]]:
        """Batch, row and time of each number."""
        return [
            (number, row, step)
            for number, rows in enumerate(self.recording.batches)
            for row in range(rows.valid.shape[0])
            for step in range(rows.valid.shape[1])
        ]

    @cached_property
    def valid(self) -> Tensor:
        """``[steps]``: the step is no padding."""
        return torch.cat([rows.valid.flatten() for rows in self.recording.batches])

    @cached_property
    def random(self) -> Tensor:
        """``[steps]``: a collector acted at random there, so that nothing wrote the state."""
        batches = self.recording.batches
        return torch.cat([torch.full((rows.valid.numel(),), rows.random) for rows in batches])

    @cached_property
    def columns(self) -> dict[Key, Tensor]:
        """Every entry that was recorded throughout, ``[steps, ...]``."""
        keys = tensor_keys(self.recording.batches[0].data) if self.recording.batches else ()
        found = {key: self.column(key) for key in keys}
        return {key: column for key, column in found.items() if column is not None}

    @cached_property
    def numbers(self) -> dict[tuple[int, int, int], int]:
        """The number of each batch, row and time."""
        return {place: number for number, place in enumerate(self.places)}

    @cached_property
    def successor(self) -> Tensor:
        """The number of the step that follows in the same trajectory, -1 where there is none."""
        found = torch.full((len(self.places),), -1)
        for number, (batch, row, step) in enumerate(self.places):
            rows = self.recording.batches[batch]
            before = rows.where_before[row] if step == 0 else (batch, row, step - 1)
            if before is not None and rows.joints[row, step] == Joint.CONTINUES:
                found[self.numbers[before]] = number
        return found

    def column(self, key: Key) -> Tensor | None:
        """The recorded entry of every step, ``[steps, ...]``; None where it was not recorded
        throughout."""
        parts = [rows.data.get(key, None) for rows in self.recording.batches]
        if any(part is None for part in parts):
            return None
        flat = [part.flatten(0, 1) for part in parts if part is not None]
        same = {tuple(part.shape[1:]) for part in flat}
        return torch.cat(flat) if len(same) == 1 else None


@dataclass(frozen=True)
class Mask:
    """The entry that tells padding from data; ``inverted``: it is true at padding."""

    key: Key
    inverted: bool = False

    @property
    def text(self) -> str:
        """How the batch is asked for the steps that are data."""
        quoted = ", ".join(f'"{part}"' for part in self.key)
        return f"{'~' if self.inverted else ''}batch[{quoted}]"


@dataclass
class Sample:
    """One training batch as rows ``[rows, steps]``; ``ids`` are numbers of collected steps, -1
    where unknown."""

    td: TensorDictBase  # as the loss gets it
    rows: TensorDictBase
    ids: Tensor
    valid: Tensor
    masked: bool  # a mask says which steps are padding
    flag: Tensor | None
    steps: Steps
    mask: Mask | None = None  # which entry says so
    partly: Tensor | None = None  # flagged for some of a step's agents, and not for all of them

    @property
    def follows(self) -> Tensor:
        """``[rows, steps]``: the step is the successor in time of its left neighbour."""
        result = torch.zeros_like(self.valid)
        left, right = self.ids[:, :-1], self.ids[:, 1:]
        known = (left >= 0) & (right >= 0)
        result[:, 1:] = known & (self.steps.successor[left.clamp_min(0)] == right)
        return result

    @property
    def known(self) -> Tensor:
        """Steps that were traced back."""
        return (self.ids >= 0) & self.valid

    @property
    def last(self) -> Tensor:
        """``[rows, steps]``: the last step of each row, ahead of the padding behind it."""
        result, count = torch.zeros_like(self.valid), self.valid.sum(1)
        behind = torch.arange(self.valid.shape[1]) < count.unsqueeze(1)
        padded_behind = (behind == self.valid).all(1) & (count > 0)
        at = torch.where(padded_behind, count, self.valid.shape[1]) - 1
        result[torch.arange(len(at)), at] = True
        return result

    @property
    def segments(self) -> Tensor:
        """Number of the true stretch of time that each step belongs to, ``[rows, steps]``."""
        return (~self.follows).long().cumsum(1) - 1

    @property
    def marked(self) -> Tensor:
        """Steps at which a module that reads the flag starts anew: flagged, or the first of a
        row."""
        first = torch.zeros_like(self.valid)
        first[:, 0] = True
        return first if self.flag is None else first | self.flag

    @property
    def resting(self) -> Tensor:
        """``[rows, steps]``: what an episode ended with is shown there, and nobody acted: there is
        neither an action nor a reward of that place."""
        result, over = torch.zeros_like(self.valid), self.steps.column(("next", "done"))
        if over is None:
            return result
        ended = over.flatten(1).any(-1)[self.ids.clamp_min(0)] & self.known
        unknown = self.valid & (self.ids < 0) & ~self.marked
        result[:, 1:] = ended[:, :-1] & unknown[:, 1:]
        return result

    def trajectory_start(self) -> Tensor:
        """``[rows, steps]``: the collected step is the first of its trajectory."""
        begins = torch.zeros(len(self.steps.places), dtype=torch.bool)
        for number, (batch, row, step) in enumerate(self.steps.places):
            joint = self.steps.recording.batches[batch].joints[row, step]
            begins[number] = joint in (Joint.AFTER_DONE, Joint.BEGINS)
        return begins[self.ids.clamp_min(0)] & self.known


def collected(evidence: Evidence) -> Steps:
    """The collected steps by number."""
    return evidence.once("steps", lambda: Steps(evidence.recording))


def samples(evidence: Evidence) -> list[Sample]:
    """The training batches that the loss gets. Unanswered where the spec makes none."""
    return evidence.once("samples", lambda: _samples(evidence))


def _samples(evidence: Evidence) -> list[Sample]:
    pipeline = evidence.pipeline
    for stage in (Stage.REPLAY, Stage.ADVANTAGE):
        failure = pipeline.failures.get(stage)
        if failure is not None and not pipeline.samples:
            raise CouldNotLook(f"the {stage} stage failed ({failure.message})")
    if not pipeline.samples:
        if failed := next(iter(pipeline.failures), None):
            raise CouldNotLook(f"no training batch was made: the {failed} stage failed")
        raise NotApplicable("the spec makes no training batch")
    made = [make_sample(evidence, td) for td in pipeline.samples if td.batch_dims > 0]
    if any(_has_steps_inside(one) for one in made):
        raise CouldNotLook(
            "the batch has one dimension, none of its steps was collected, and neither starts nor"
            " ends are marked in it: which dimension of its entries is time is not known (give it"
            " batch_size=[rows, steps])"
        )
    return made


def _has_steps_inside(sample: Sample) -> bool:
    """Whether the rows of a batch of one dimension may be whole trajectories."""
    if sample.td.batch_dims > 1 or bool(sample.known.any()):
        return False
    marks = ("is_init", "done", "traj_ids", "truncated")
    marked = any(key[-1] in marks for key in tensor_keys(sample.td))
    deep = (one.ndim > 2 for _, one in tensor_items(sample.td))  # beyond [rows, numbers]
    return not marked and any(deep)


def batch_device(evidence: Evidence) -> torch.device | None:
    """Where the loss gets its batches; None where there are none."""
    return evidence.once("batch device", lambda: _place_of_first(evidence.pipeline.samples))


def estimator_device(evidence: Evidence) -> torch.device | None:
    """Where the estimator gets its batches: collected ones, where there are such."""
    pipeline = evidence.pipeline
    source = pipeline.estimated or pipeline.samples
    return evidence.once("estimator device", lambda: _place_of_first(source))


def _place_of_first(batches: Iterable[TensorDictBase]) -> torch.device | None:
    first = next(iter(batches), None)
    return None if first is None else place_of(first)


def make_sample(evidence: Evidence, td: TensorDictBase) -> Sample:
    """One training batch, its steps traced back by their number or by what was observed."""
    steps, td = collected(evidence), on_cpu(td)
    rows = td.reshape(-1, td.shape[-1])
    shape = torch.Size(rows.shape)
    ids = _ids(rows, shape, steps, evidence.policy.reads)
    mask = _mask(rows, padded(ids), steps)
    # The loss may part a rollout's repeated last steps from data by their flags, with no mask.
    valid = ~halted(rows) if mask is None else _read(rows, mask, shape)
    flags = [rows.get(key, None) for key in evidence.policy.flags]
    told = [flag.reshape(*shape, -1) for flag in flags if flag is not None]
    flag = torch.stack([one.any(-1) for one in told]).any(0) if told else None
    partly = torch.stack([one.any(-1) & ~one.all(-1) for one in told]).any(0) if told else None
    masked = not bool(valid.all())
    if masked:  # what stands behind the data of a row tells nothing of it
        ids = torch.where(valid, _ids(rows, shape, steps, evidence.policy.reads, valid), -1)
    return Sample(td, rows, ids, valid, masked, flag, steps, mask, partly)


def padded(ids: Tensor) -> Tensor:
    """``[rows, steps]``: never collected, or a copy of its left neighbour up to the end of the
    row."""
    repeated = torch.zeros_like(ids, dtype=torch.bool)
    repeated[:, 1:] = (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)
    to_the_end = (
        repeated.flip(1).long().cumprod(1).flip(1).bool()
    )  # a step drawn twice is no padding
    return (ids < 0) | to_the_end


def _mask(rows: TensorDictBase, padding: Tensor, steps: Steps) -> Mask | None:
    """The entry that parts data from padding as the steps' numbers do, by whatever name; else one
    with a usual name."""
    if (found := padding_mask(rows)) is not None:
        return Mask(found[0])
    present = set(tensor_keys(rows))  # an env's observation is no mask
    usual = [key for key in _MASKS if key in present and ("next", *key) not in present]
    fitting = [key for key in usual if rows.get(key).numel() == padding.numel()]
    if bool(padding.any()) and not bool(padding.all()):
        made = [key for key in tensor_keys(rows) if key[0] not in ("next", STEP_KEY[0])]
        more = [key for key in made if key not in fitting and steps.column(key) is None]
        if _goes_on(rows, padding, steps):
            more = []  # data that others have collected, which such an entry may name as theirs
        for key in (*fitting, *more):
            for inverted in (False, True):
                if _parts(rows.get(key), padding if inverted else ~padding):
                    return Mask(key, inverted)
    return Mask(fitting[0]) if fitting else None


def _goes_on(rows: TensorDictBase, padding: Tensor, steps: Steps) -> bool:
    """Whether what is recorded of steps differs from one step to the next where none was collected:
    what rows are filled up with does not."""
    beside = padding[:, 1:] & padding[:, :-1]
    kept = set(steps.recording.steady) & set(tensor_keys(rows))
    values = [rows.get(key).reshape(*padding.shape, -1) for key in kept]
    return any(bool((one[:, 1:] != one[:, :-1]).any(-1)[beside].any()) for one in values)


def _parts(value: Tensor, data: Tensor) -> bool:
    if value.numel() != data.numel() or value.is_complex():
        return False
    return torch.equal(value.reshape(data.shape).double(), data.double())


def _read(rows: TensorDictBase, mask: Mask, shape: torch.Size) -> Tensor:
    value: Tensor = rows.get(mask.key).reshape(shape).bool()
    return ~value if mask.inverted else value


def _ids(
    rows: TensorDictBase,
    shape: torch.Size,
    steps: Steps,
    reads: Sequence[Key],
    there: Tensor | None = None,
) -> Tensor:
    """The tag where it was kept; elsewhere steps are recognised by their steady entries, where a
    step is ``there``."""
    tag: Tensor | None = rows.get(STEP_KEY, None)
    if tag is not None and tag.numel() == shape.numel():
        return tag.reshape(shape).long() - 1
    given = set(tensor_keys(rows)) & steps.columns.keys()
    keys = [key for key in steps.recording.steady if key in given]
    found = _recognised(rows, shape, steps, keys, there)
    read = [key for key in keys if key in reads]
    if read == keys or bool((found >= 0).any()):
        return found
    # The script may have written what no policy reads.
    return _recognised(rows, shape, steps, read, there)


def _recognised(
    rows: TensorDictBase,
    shape: torch.Size,
    steps: Steps,
    keys: Sequence[Key],
    there: Tensor | None,
) -> Tensor:
    if not keys:
        return torch.full(shape, -1)
    return recognised(rows, steps.columns, keys, steps.successor, steps.valid, there)


@dataclass(frozen=True)
class Truth:
    """Sequential outputs by step number, ``[steps, ...]``; ``has`` says for which steps they are
    known."""

    outputs: dict[Key, Tensor]
    has: Tensor


def truth(evidence: Evidence) -> Truth:
    """What the isolated replay gives at every collected step of the policy."""
    return evidence.once("truth", lambda: _truth(evidence))


def _truth(evidence: Evidence) -> Truth:
    steps = collected(evidence)
    has = torch.zeros(len(steps.places), dtype=torch.bool)
    outputs: dict[Key, Tensor] = {}
    for item in replayed(evidence):
        numbers = step_numbers(steps, item)
        has[numbers] = True
        for key in tensor_keys(item.truth):
            value = item.truth.get(key)[0]
            if key not in outputs:
                outputs[key] = torch.zeros(len(steps.places), *value.shape[1:], dtype=value.dtype)
            outputs[key][numbers] = value.to(outputs[key].dtype)
    if not bool(has.any()):
        raise CouldNotLook("no collected trajectory could be replayed")
    return Truth(outputs, has)


def step_numbers(steps: Steps, item: Replayed) -> Tensor:
    """``[steps]``: the numbers of the steps that were replayed."""
    found = [
        steps.numbers[(s.batch, s.row, t)]
        for s in item.trajectory.stretches
        for t in range(s.begin, s.end)
    ]
    return torch.tensor(found[: item.truth.shape[1]])


def same_values(left: Tensor, right: Tensor) -> Tensor:
    """Per leading element: equal to the bit after a cast to the narrower left dtype."""
    differ = bits_differ(left, right.to(left.dtype))
    return ~differ.flatten(1).any(-1) if differ.ndim > 1 else ~differ


def stale(
    sample: Sample, starts: Tensor, stored: Tensor, recorded: Tensor, *, coarse: float = 0.0
) -> Tensor:
    """``starts`` ``[rows, steps]`` whose stored state is another one than was collected there.

    A state that was computed anew, in another order of summation, differs by rounding and is the
    same state; ``coarse`` is as for the bound.
    """
    if stored.shape[2:] != recorded.shape[1:]:
        return starts
    wrong, here = starts.clone(), starts.nonzero()
    values, want = stored[here[:, 0], here[:, 1]], recorded[sample.ids[starts]]
    differ = ~same_values(values, want)
    if values.is_floating_point() and bool(differ.any()):
        largest = float(want.double().abs().nan_to_num().max())
        rounding = (SLACK * epsilon(values.dtype) + coarse) * largest
        differ &= ~(gap(values, want).flatten(1).amax(-1) <= rounding)
    wrong[here[:, 0], here[:, 1]] = differ
    return wrong
