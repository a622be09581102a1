"""What a collector recorded, cut into trajectories by the env's own done flags and nothing else.

A row is one env of one batch. Where a row begins, and where neither a done flag nor an unbroken
observation joins two neighbours, the recording has a junction. ``is_init`` is read only to be
judged, never to cut.
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
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.recording.masks import halted, padding_mask
from rnncheck.pipeline.subject.env_facts import EnvFacts
from rnncheck.pipeline.subject.subject import Subject, next_key

# Of the n-step returns that are recognised. Rainbow takes 3, R2D2 5; chosen at twice that and one,
# since each costs a pass over the recording.
LONGEST_RETURN = 11
MOSTLY = 0.5  # share of equal neighbours: an entry handed on has nearly 1, another nearly 0
TRAJ = (("collector", "traj_ids"), ("traj_ids",))
StepPlace = tuple[int, int, int]  # batch, row, step


class Joint(IntEnum):
    """How a step hangs together with the step before it in time."""

    CONTINUES = 0
    AFTER_DONE = 1
    BEGINS = 2  # a fresh trajectory without a done before it: the first reset, or a forced one
    # Neither a reset nor the successor of its neighbour: rows, workers or batches were joined.
    CUT = 3


@dataclass
class Rows:
    """One collected batch as rows; all tensors are ``[rows, steps]``, ``data`` has that batch
    size."""

    data: TensorDictBase
    shape: torch.Size  # as collected
    valid: Tensor
    done: Tensor
    joints: Tensor
    random: bool  # collected by a random policy, so that outputs and states are not the module's
    where_before: list[StepPlace | None]  # per row: the step that its first step follows

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
    """Stretches that follow each other in time. ``fresh``: its first step is a trajectory's first
    step."""

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
        turns: bool = False,
        anew: bool = False,
    ) -> None:
        """``turns``: consecutive batches may come from different workers. ``anew``: all envs were
        reset ahead of each of them, so that none goes on where another shows the same by chance."""
        self.subject = subject
        self.env = env
        usable = [batch for batch in batches if batch.batch_dims > 0 and batch.numel() > 0]
        random = self._random(usable)
        self.batches = [
            self._rows(batch, number < random_batches or number in random)
            for number, batch in enumerate(usable)
        ]
        self.steady = self._steady_keys()
        self._seen = self._last_places()
        self._anew = anew
        self.turns = turns or any(map(self._is_turn, range(2, len(self.batches))))
        for number in range(len(self.batches)):
            self._join(number)

    def _random(self, batches: list[TensorDictBase]) -> set[int]:
        """Batches without any of the outputs, but the action, that the policy leaves in the
        others."""
        skip = {*self.env.actions, *tensor_keys(self.env.first), *self.subject.carry}
        keys = [key for key in self.subject.writes if key[0] != "next" and key not in skip]
        left = [any(_is_written(batch, key) for key in keys) for batch in batches]
        return {number for number, some in enumerate(left) if any(left) and not some}

    def _rows(self, batch: TensorDictBase, random: bool) -> Rows:
        steps = batch.shape[-1]
        data = on_cpu(batch.reshape(-1, steps))
        mask = padding_mask(data)
        shape = (data.shape[0], steps)
        valid = ~halted(data) if mask is None else mask[1]
        flags = [data.get(next_key(key), None) for key in self.env.done]
        ends = [flag.reshape(*shape, -1).any(-1) for flag in flags if flag is not None]
        done = torch.stack(ends).any(0) if ends else torch.zeros(shape, dtype=torch.bool)
        joints = torch.zeros(shape, dtype=torch.int64)
        return Rows(data, batch.shape, valid, done & valid, joints, random, [None] * shape[0])

    def _steady_keys(self) -> tuple[Key, ...]:
        """Entries that a step hands on unchanged: mostly equal to the neighbour's ``next``
        entry."""
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
        steady = tuple(key for key, rates in seen.items() if min(rates) >= MOSTLY)
        return steady or (() if seen else self._observed_once(skip))

    def _observed_once(self, skip: set[Key]) -> tuple[Key, ...]:
        """What the env shows, where no step holds what was seen next beside what was seen:
        ``compact_obs`` of TorchRL's collectors, or what a script leaves out itself."""
        keys = [key for key in tensor_keys(self.env.first) if key not in skip]
        return tuple(
            key
            for key in keys
            if key[0] != "next" and all(key in tensor_keys(rows.data) for rows in self.batches)
        )

    @property
    def handed_on(self) -> tuple[Key, ...]:
        """The steady entries that the data holds a ``next`` of."""
        return tuple(
            key
            for key in self.steady
            if all(next_key(key) in tensor_keys(rows.data) for rows in self.batches)
        )

    @property
    def skips(self) -> bool:
        """``next`` is several steps ahead (n-step returns made by the collector): it hands nothing
        on."""
        if self.steady:
            return False
        skip = {*self.subject.carry, *self.subject.flags, *self.env.done}
        for rows in self.batches:
            for key in tensor_keys(rows.data):
                after = rows.data.get(next_key(key), None)
                if key in skip or after is None or after.shape != rows.data.get(key).shape:
                    continue
                if any(_ahead(after, rows.data.get(key), n) for n in range(2, LONGEST_RETURN + 1)):
                    return True
        return False

    def _join(self, number: int) -> None:
        rows = self.batches[number]
        count, _steps = rows.valid.shape
        rows.joints[:, 1:] = torch.where(rows.done[:, :-1], Joint.AFTER_DONE, Joint.CONTINUES)
        broken = self._broken(rows)
        for row, step in (broken & ~rows.done[:, :-1]).nonzero().tolist():
            rows.joints[row, step + 1] = self._begins_or_cut(rows, row, step + 1)
        for row, step in self._rows_met(number):
            rows.joints[row, step] = Joint.CUT
        for row in range(count):
            rows.joints[row, 0] = self._first_joint(number, row)

    def _rows_met(self, number: int) -> list[tuple[int, int]]:
        """Steps behind a done that go on from a batch before, state and all: another row begins
        there."""
        rows = self.batches[number]
        places = ((rows.joints == Joint.AFTER_DONE) & rows.valid).nonzero().tolist()
        goes_on = self._row_goes_on if self.traj_ids(rows) is None else self._trajectory_goes_on
        return [(row, step) for row, step in places if goes_on(number, row, step)]

    def _row_goes_on(self, number: int, row: int, step: int) -> bool:
        rows, keys = self.batches[number], (*self.steady, *self.subject.carry)
        fresh = self._is_fresh(rows, row, step)
        return not fresh and self._goes_on_from_any(rows, row, step, keys)

    def _trajectory_goes_on(self, number: int, row: int, step: int) -> bool:
        """Its number was met before, and it takes up what was left there."""
        places = self._of_trajectory(number, row, step)
        return any(self._follows(place, self.batches[number], row, step) for place in places)

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

    def _goes_on(self, before: StepPlace, rows: Rows, row: int) -> bool:
        """A batch's last step is marked as truncated, but nothing was reset (``set_truncated``)."""
        flag, ids = self.flag(rows), self.traj_ids(rows)
        earlier = self.traj_ids(self.batches[before[0]])
        if ids is None or earlier is None or flag is None or bool(flag[row, 0]):
            return False
        same = bool(ids[row, 0] == earlier[before[1], before[2]])
        return same and self._follows(before, rows, row) is True

    def _predecessor(self, number: int, row: int) -> StepPlace | None:
        """The step that this row's first step follows: same trajectory number, or same row of the
        batch before."""
        if number == 0 or self._anew:
            return None
        rows, previous = self.batches[number], self.batches[number - 1]
        ids = self.traj_ids(rows)
        places = self._of_trajectory(number, row)
        place = next((one for one in places if self._follows(one, rows, row)), None)
        if place is not None:
            return place
        if places and places[0][0] == number - 1:
            return places[0] if self._follows(places[0], rows, row) is None else None
        if self.turns:
            return None
        if row >= previous.valid.shape[0] or rows.shape[:-1] != previous.shape[:-1]:
            return None
        last = int(previous.valid[row].nonzero().max())
        place = (number - 1, row, last)
        if bool(previous.done[row, last]):  # unless it goes on from elsewhere: rows were joined
            return None if ids is None and self._goes_on_from_any(rows, row) else place
        follows, flag = self._follows(place, rows, row), self.flag(rows)
        if follows is None:  # nothing tells: the flag is believed
            follows = flag is None or not bool(flag[row, 0])
        return place if follows and ids is None else None

    def _of_trajectory(self, number: int, row: int, step: int = 0) -> list[StepPlace]:
        """The last steps, in the batches before ``number``, of trajectories with the number that
        the step has."""
        ids = self.traj_ids(self.batches[number])
        known = [] if ids is None else self._seen.get(int(ids[row, step]), [])
        return [place for place in reversed(known) if place[0] < number]

    def _last_places(self) -> dict[int, list[StepPlace]]:
        """By trajectory number, the last step in each batch that holds some of it."""
        seen: dict[int, list[StepPlace]] = {}
        for number, rows in enumerate(self.batches):
            ids, last = self.traj_ids(rows), dict[int, StepPlace]()
            if ids is None:
                continue
            for step, row in rows.valid.T.nonzero().tolist():
                last[int(ids[row, step])] = (number, row, step)
            for trajectory, place in last.items():
                seen.setdefault(trajectory, []).append(place)
        return seen

    def _is_turn(self, number: int) -> bool:
        """Batch ``number`` goes on with a trajectory that the batch before it knows nothing of."""
        places, rows = self._of_trajectory(number, 0), self.batches[number]
        place = next((one for one in places if self._follows(one, rows, 0)), None)
        return place is not None and place[0] < number - 1

    def _follows(self, place: StepPlace, rows: Rows, row: int, step: int = 0) -> bool | None:
        """Whether a step of ``row``, the first, holds what ``place`` handed on; None when nothing
        tells."""
        earlier = self.batches[place[0]].data[place[1], place[2]]
        first, verdicts = rows.data[row, step], []
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
        if rows.random and step == 0:
            return Joint.CUT  # random steps leave the state as it was, so that it does not tell
        return Joint.BEGINS if self._is_fresh(rows, row, step) else Joint.CUT

    def _goes_on_from_any(
        self, rows: Rows, row: int, step: int = 0, keys: tuple[Key, ...] = ()
    ) -> bool:
        """The step is what some step of the batch before handed on: rows were joined there."""
        number = next(n for n, batch in enumerate(self.batches) if batch is rows)
        if number == 0 or not self.steady:
            return False
        earlier, match = self.batches[number - 1], ~self.batches[number - 1].done
        for key in keys or self.steady:
            after, here = earlier.data.get(next_key(key), None), rows.data.get(key, None)
            if after is None or here is None or after.shape[2:] != here.shape[2:]:
                return False
            match = match & _same(after, here[row, step].expand_as(after))
        for key in () if keys else self.subject.carry:  # in corridors many steps show the same
            after, here = earlier.data.get(next_key(key), None), rows.data.get(key, None)
            if after is not None and here is not None and after.shape[2:] == here.shape[2:]:
                match = match & _same(after, here[row, step].expand_as(after))
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

    def trajectories(self, *, random: bool = False) -> Iterator[Trajectory]:
        """Every trajectory of policy steps, or of ``random`` ones, the longest history first."""
        chains: dict[StepPlace, list[Stretch]] = {}
        begun: list[tuple[list[Stretch], bool]] = []  # with whether it starts from a fresh state
        for number, rows in enumerate(self.batches):
            if rows.random is not random:
                continue
            for stretch, joint in self._stretches(number, rows):
                before = rows.where_before[stretch.row] if stretch.begin == 0 else None
                chain = chains.pop(before, None) if before and joint == Joint.CONTINUES else None
                if chain is None:
                    chain = []
                    begun.append((chain, joint in (Joint.AFTER_DONE, Joint.BEGINS)))
                chain.append(stretch)
                chains[(number, stretch.row, stretch.end - 1)] = chain
        for chain, fresh in sorted(begun, key=lambda one: -len(one[0])):
            yield Trajectory(tuple(chain), fresh)

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


def _is_written(batch: TensorDictBase, key: Key) -> bool:
    """A collector leaves zeros where nothing is written."""
    value = batch.get(key, None)
    return isinstance(value, Tensor) and bool((value != 0).any())


def _ahead(after: Tensor, here: Tensor, steps: int) -> bool:
    if here.shape[1] <= steps:
        return False
    return float(_same(after[:, :-steps], here[:, steps:]).double().mean()) >= MOSTLY


def _same(left: Tensor, right: Tensor) -> Tensor:
    """Per step ``[rows, steps]``: all features equal, to the bit."""
    differ = bits_differ(left, right)
    return ~differ.flatten(2).any(-1) if differ.ndim > 2 else ~differ
