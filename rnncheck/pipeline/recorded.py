"""What a collector recorded, cut into trajectories by the env's own done flags and nothing else.

A row is one env of one batch. Where a row begins, and where neither a done flag nor an unbroken observation joins two
neighbours, the recording has a junction. ``is_init`` is read only to be judged, never to cut.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.envs import EnvFacts
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject import Subject, next_key

MASK = ("collector", "mask")
LONGEST_RETURN = 12  # n-step returns that are recognised
TRAJ = (("collector", "traj_ids"), ("traj_ids",))


class Joint(IntEnum):
    """How a step hangs together with the step before it in time."""

    CONTINUES = 0
    AFTER_DONE = 1
    BEGINS = 2  # a fresh trajectory without a done before it: the first reset, or a forced one
    CUT = 3  # neither a reset nor the successor of its neighbour: rows, workers or batches were joined


@dataclass
class Rows:
    """One collected batch as rows; all tensors are ``[rows, steps]``, ``data`` has that batch size."""

    data: TensorDictBase
    shape: torch.Size  # as collected
    valid: Tensor
    done: Tensor
    joints: Tensor
    random: bool  # collected by a random policy, so that outputs and states are not the module's
    where_before: list[
        tuple[int, int, int] | None
    ]  # per row: batch, row, step that its first step follows

    @property
    def starts(self) -> Tensor:
        """Steps at which a trajectory begins."""
        return (self.joints == Joint.AFTER_DONE) | (self.joints == Joint.BEGINS)


@dataclass(frozen=True)
class Stretch:
    """Neighbouring steps ``[begin, end)`` of one row of one batch."""

    batch: int
    row: int
    begin: int
    end: int


@dataclass(frozen=True)
class Trajectory:
    """Stretches that follow each other in time. ``fresh``: its first step is a trajectory's first step."""

    stretches: tuple[Stretch, ...]
    fresh: bool

    @property
    def steps(self) -> int:
        return sum(s.end - s.begin for s in self.stretches)


class Recording:
    """All batches of a run with their joints and trajectories."""

    def __init__(
        self,
        batches: list[TensorDictBase],
        subject: Subject,
        env: EnvFacts,
        random_batches: int = 0,
    ) -> None:
        self.subject = subject
        self.env = env
        usable = [batch for batch in batches if batch.batch_dims > 0 and batch.numel() > 0]
        self.batches = [
            self._rows(batch, number < random_batches) for number, batch in enumerate(usable)
        ]
        self.steady = self._steady_keys()
        for number in range(len(self.batches)):
            self._join(number)

    def _rows(self, batch: TensorDictBase, random: bool) -> Rows:
        steps = batch.shape[-1]
        data = batch.reshape(-1, steps)
        mask = data.get(MASK, None)
        shape = (data.shape[0], steps)
        valid = torch.ones(shape, dtype=torch.bool) if mask is None else mask.reshape(shape)
        flags = [data.get(next_key(key), None) for key in self.env.done]
        ends = [flag.reshape(*shape, -1).any(-1) for flag in flags if flag is not None]
        done = torch.stack(ends).any(0) if ends else torch.zeros(shape, dtype=torch.bool)
        joints = torch.zeros(shape, dtype=torch.int64)
        return Rows(data, batch.shape, valid, done & valid, joints, random, [None] * shape[0])

    def _steady_keys(self) -> tuple[Key, ...]:
        """Entries that a step hands on unchanged: mostly equal to the neighbour's ``next`` entry."""
        skip = {*self.subject.carry, *self.subject.flags, *self.env.done}
        seen: dict[Key, list[float]] = {}
        for rows in self.batches:
            inside = ~rows.done[:, :-1] & rows.valid[:, 1:]
            if not bool(inside.any()):
                continue
            for key in tensor_keys(rows.data):
                if key in skip or key[0] in ("next", "collector"):
                    continue
                after = rows.data.get(next_key(key), None)
                if after is not None and after.shape == rows.data.get(key).shape:
                    same = _same(after[:, :-1], rows.data.get(key)[:, 1:])
                    seen.setdefault(key, []).append(float(same[inside].double().mean()))
        return tuple(key for key, rates in seen.items() if min(rates) >= 0.5)

    @property
    def skips(self) -> bool:
        """``next`` is several steps ahead (n-step returns made by the collector): it hands nothing on."""
        if self.steady:
            return False
        skip = {*self.subject.carry, *self.subject.flags, *self.env.done}
        for rows in self.batches:
            for key in tensor_keys(rows.data):
                after = rows.data.get(next_key(key), None)
                if key in skip or after is None or after.shape != rows.data.get(key).shape:
                    continue
                if any(_ahead(after, rows.data.get(key), n) for n in range(2, LONGEST_RETURN)):
                    return True
        return False

    def _join(self, number: int) -> None:
        rows = self.batches[number]
        count, _steps = rows.valid.shape
        rows.joints[:, 1:] = torch.where(rows.done[:, :-1], Joint.AFTER_DONE, Joint.CONTINUES)
        broken = self._broken(rows)
        for row, step in (broken & ~rows.done[:, :-1]).nonzero().tolist():
            rows.joints[row, step + 1] = self._begins_or_cut(rows, row, step + 1)
        for row in range(count):
            rows.joints[row, 0] = self._first_joint(number, row)

    def _broken(self, rows: Rows) -> Tensor:
        """``[rows, steps - 1]``: the step is not its neighbour's successor."""
        broken = torch.zeros_like(rows.done[:, :-1])
        ids = self.traj_ids(rows)
        if ids is not None:
            broken |= ids[:, 1:] != ids[:, :-1]
        for key in self.steady:
            after, here = rows.data.get(next_key(key), None), rows.data.get(key, None)
            if after is not None and here is not None:
                broken |= ~_same(after[:, :-1], here[:, 1:])
        return broken & rows.valid[:, 1:]

    def traj_ids(self, rows: Rows) -> Tensor | None:
        """The collector's trajectory numbers ``[rows, steps]``, where it writes them."""
        for key in TRAJ:
            ids = rows.data.get(key, None)
            if ids is not None:
                return ids.reshape(rows.valid.shape) if ids.numel() == rows.valid.numel() else None
        return None

    def _first_joint(self, number: int, row: int) -> Joint:
        rows = self.batches[number]
        before = self._predecessor(number, row)
        if before is None:
            return self._begins_or_cut(rows, row, 0)
        rows.where_before[row] = before
        earlier = self.batches[before[0]]
        ended = bool(earlier.done[before[1], before[2]])
        if ended and self._goes_on(before, rows, row):
            return Joint.CONTINUES
        return Joint.AFTER_DONE if ended else Joint.CONTINUES

    def _goes_on(self, before: tuple[int, int, int], rows: Rows, row: int) -> bool:
        """A batch's last step is marked as truncated, but nothing was reset (``set_truncated``)."""
        flag, ids = self.flag(rows), self.traj_ids(rows)
        earlier = self.traj_ids(self.batches[before[0]])
        if ids is None or earlier is None or flag is None or bool(flag[row, 0]):
            return False
        same = bool(ids[row, 0] == earlier[before[1], before[2]])
        return same and self._follows(before, rows, row) is True

    def _predecessor(self, number: int, row: int) -> tuple[int, int, int] | None:
        """The step that this row's first step follows: same trajectory number, or same row of the batch before."""
        if number == 0:
            return None
        rows, previous = self.batches[number], self.batches[number - 1]
        ids, earlier = self.traj_ids(rows), self.traj_ids(previous)
        if ids is not None and earlier is not None:
            found = (previous.valid & (earlier == ids[row, 0])).nonzero().tolist()
            if found:
                place = (number - 1, *max(found, key=lambda p: (p[1], p[0])))
                return place if self._follows(place, rows, row) is not False else None
        if row >= previous.valid.shape[0] or rows.shape[:-1] != previous.shape[:-1]:
            return None
        last = int(previous.valid[row].nonzero().max())
        place = (number - 1, row, last)
        if bool(previous.done[row, last]):
            return place
        follows, flag = self._follows(place, rows, row), self.flag(rows)
        if follows is None:  # nothing tells: the flag is believed
            follows = flag is None or not bool(flag[row, 0])
        return place if follows and ids is None else None

    def _follows(self, place: tuple[int, int, int], rows: Rows, row: int) -> bool | None:
        """Whether the first step of ``row`` holds what ``place`` handed on; None when nothing tells."""
        earlier = self.batches[place[0]].data[place[1], place[2]]
        first, verdicts = rows.data[row, 0], []
        for key in self.steady:
            after, here = earlier.get(next_key(key), None), first.get(key, None)
            if after is not None and here is not None and after.shape == here.shape:
                verdicts.append(not bool(bits_differ(after, here).any()))
        return all(verdicts) if verdicts else None

    def _begins_or_cut(self, rows: Rows, row: int, step: int) -> Joint:
        flag = self.flag(rows)
        marked = step == 0 and flag is not None and bool(flag[row, 0])
        if marked and not self._goes_on_from_any(rows, row):
            return Joint.BEGINS  # inside a row a mark may also mean that stretches were joined
        return Joint.BEGINS if self._is_fresh(rows, row, step) else Joint.CUT

    def _goes_on_from_any(self, rows: Rows, row: int) -> bool:
        """The first step of ``row`` is what some step of the batch before handed on: rows were joined there."""
        number = next(n for n, batch in enumerate(self.batches) if batch is rows)
        if number == 0 or not self.steady:
            return False
        earlier, match = self.batches[number - 1], ~self.batches[number - 1].done
        for key in self.steady:
            after, here = earlier.data.get(next_key(key), None), rows.data.get(key, None)
            if after is None or here is None or after.shape[2:] != here.shape[2:]:
                return False
            match = match & _same(after, here[row, 0].expand_as(after))
        return bool(match.any())

    def _is_fresh(self, rows: Rows, row: int, step: int) -> bool:
        values = [(key, rows.data.get(key, None)) for key in self.subject.carry]
        given = [(key, value[row, step]) for key, value in values if value is not None]
        env_row = row % self.env.rows
        return all(
            not bool(bits_differ(value, self.subject.fresh[key][env_row].to(value.dtype)).any())
            for key, value in given
            if key in self.subject.fresh and self.subject.fresh[key][env_row].shape == value.shape
        )

    def flag(self, rows: Rows) -> Tensor | None:
        """The recorded start flag ``[rows, steps]``: any of the start-flag keys."""
        found = [rows.data.get(key, None) for key in self.subject.flags]
        flags = [f.reshape(*rows.valid.shape, -1).any(-1) for f in found if f is not None]
        return torch.stack(flags).any(0) if flags else None

    def trajectories(self) -> Iterator[Trajectory]:
        """Every trajectory of policy steps, the longest history first; random steps are left out."""
        chains: dict[tuple[int, int, int], list[Stretch]] = {}
        fresh: dict[int, bool] = {}
        done: list[list[Stretch]] = []
        for number, rows in enumerate(self.batches):
            if rows.random:
                continue
            for stretch, joint in self._stretches(number, rows):
                before = rows.where_before[stretch.row] if stretch.begin == 0 else None
                chain = chains.pop(before, None) if before and joint == Joint.CONTINUES else None
                if chain is None:
                    chain = []
                    done.append(chain)
                    fresh[id(chain)] = joint in (Joint.AFTER_DONE, Joint.BEGINS)
                chain.append(stretch)
                chains[(number, stretch.row, stretch.end - 1)] = chain
        for chain in sorted(done, key=lambda c: -len(c)):
            yield Trajectory(tuple(chain), fresh[id(chain)])

    def _stretches(self, number: int, rows: Rows) -> Iterator[tuple[Stretch, Joint]]:
        for row in range(rows.valid.shape[0]):
            length = int(rows.valid[row].sum())
            cuts = [
                0,
                *[t for t in range(1, length) if rows.joints[row, t] != Joint.CONTINUES],
                length,
            ]
            for begin, end in itertools.pairwise(cuts):
                if end > begin:
                    yield Stretch(number, row, begin, end), Joint(int(rows.joints[row, begin]))

    def gather(self, trajectory: Trajectory) -> TensorDictBase:
        """The recorded steps of one trajectory, ``[1, steps]``."""
        parts = [
            self.batches[s.batch].data[s.row : s.row + 1, s.begin : s.end]
            for s in trajectory.stretches
        ]
        keys = set.intersection(*(set(tensor_keys(part)) for part in parts))
        joined = {key: torch.cat([part.get(key) for part in parts], 1) for key in keys}
        return TensorDict(joined, batch_size=[1, trajectory.steps])


def _ahead(after: Tensor, here: Tensor, steps: int) -> bool:
    if here.shape[1] <= steps:
        return False
    return float(_same(after[:, :-steps], here[:, steps:]).double().mean()) >= 0.5


def _same(left: Tensor, right: Tensor) -> Tensor:
    """Per step ``[rows, steps]``: all features equal, to the bit."""
    differ = bits_differ(left, right)
    return ~differ.flatten(2).any(-1) if differ.ndim > 2 else ~differ
