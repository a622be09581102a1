"""What was acted on, held against the isolated replay of every recorded trajectory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.comparison import Mismatch, is_same, mismatches
from rnncheck.checks.evidence.constructed_batches import runs_in_double
from rnncheck.checks.evidence.evidence import QUICK_STEPS, Evidence, recorded_error
from rnncheck.checks.evidence.random_outputs import comparable_outputs, random_outputs
from rnncheck.checks.evidence.recurrent_pass import recurrent_rows
from rnncheck.checks.rule import Deferred, NotApplicable, Unanswered
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.recording.recording import Joint, Recording, Rows, StepPlace, Trajectory
from rnncheck.pipeline.subject.passes import IN_DOUBLE, StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.results.model import Where


@dataclass(frozen=True)
class Replayed:
    """One recorded trajectory and its isolated replay; all ``[1, steps]``."""

    trajectory: Trajectory
    recorded: TensorDictBase
    truth: TensorDictBase
    in_double: Callable[[], TensorDictBase] | None
    state: dict[Key, Tensor]  # the state before the first step

    @cached_property
    def oracle(self) -> TensorDictBase | None:
        """The replay in float64, where the module runs in it; made when it is asked for."""
        return None if self.in_double is None else self.in_double()

    def unlike(
        self, candidate: TensorDictBase, keys: Iterable[Key], *, coarse: float = 0.0
    ) -> list[Mismatch]:
        """The keys of ``candidate`` that are no rounding of the replay, worst first.

        What is equal is in every bound, as a bound is at least the replay's own error: it needs no
        oracle.
        """
        keys = list(keys)
        if is_same(candidate, self.truth, keys):
            return []
        return mismatches(candidate, self.truth, self.oracle, keys, coarse=coarse)


def replayed(evidence: Evidence) -> list[Replayed]:
    """The recorded trajectories with their replays, up to ``QUICK_STEPS`` steps without
    --thorough."""
    return evidence.once("replayed", lambda: list(_replays(evidence)))


def _replays(evidence: Evidence) -> Iterator[Replayed]:
    return replays_of(evidence, evidence.recording.trajectories())


def replays_of(evidence: Evidence, trajectories: Iterable[Trajectory]) -> Iterator[Replayed]:
    """Some of the recorded trajectories, with their replays, up to as many steps."""
    recording, subject = evidence.recording, evidence.policy
    budget = 10**9 if evidence.thorough else QUICK_STEPS
    for trajectory in trajectories:
        if budget <= 0:
            return
        recorded = recording.gather(trajectory)[:, :budget]
        budget -= recorded.shape[1]
        state = _initial(recording, subject, trajectory, recorded)
        if state is not None:
            yield _replay(evidence, subject, trajectory, recorded, state)


def _initial(
    recording: Recording, subject: Subject, trajectory: Trajectory, recorded: TensorDictBase
) -> dict[Key, Tensor] | None:
    """The true state before the first step: fresh, or as stored where the beginning was not
    recorded."""
    row = trajectory.stretches[0].row % recording.env.rows
    if trajectory.fresh:
        return {key: value[row : row + 1] for key, value in subject.fresh.items()}
    stored = {key: recorded.get(key, None) for key in subject.carry}
    known = {key: value[:, 0] for key, value in stored.items() if value is not None}
    return known if len(known) == len(stored) else None


def _replay(
    evidence: Evidence,
    subject: Subject,
    trajectory: Trajectory,
    recorded: TensorDictBase,
    state: dict[Key, Tensor],
) -> Replayed:
    inputs = subject.inputs_of(recorded)
    starts = torch.zeros(1, recorded.shape[1], dtype=torch.bool)
    starts[:, 0] = trajectory.fresh
    double = runs_in_double(evidence, subject, inputs)
    states = StartStates(fresh=state, drawn=_drawn_states(evidence, subject, recorded))
    truth = unroll_subject(subject, inputs, starts, states)
    oracle = partial(unroll_subject, subject, inputs, starts, states, settings=IN_DOUBLE)
    return Replayed(trajectory, recorded, truth, oracle if double else None, state)


def _drawn_states(
    evidence: Evidence, subject: Subject, recorded: TensorDictBase
) -> dict[Key, Tensor]:
    """States that are made of what was drawn, such as the last action, as they were recorded."""
    random = random_outputs(evidence, subject, explore=True)
    drawn = [key for key in subject.carry if next_key(key) in random]
    found = {key: recorded.get(key, None) for key in drawn}
    return {key: value for key, value in found.items() if value is not None}


def compared_keys(evidence: Evidence, item: Replayed) -> list[Key]:
    """Recorded outputs that are functions of what was seen: not random under exploration.

    New states count only where no other float output is recorded: what is stored of them may be the
    env's.
    """
    subject = evidence.policy
    noisy = random_outputs(evidence, subject, explore=True)
    known = set(tensor_keys(item.truth)) & set(tensor_keys(item.recorded)) - noisy
    roots = [key for key in comparable_outputs(evidence, subject, item.truth) if key in known]
    if any(item.recorded.get(key).is_floating_point() for key in roots):
        return roots
    stored = [key for key in noisy if _is_reproduced(evidence, item, key)]
    if stored:
        return [*roots, *stored]
    return [*roots, *(next_key(key) for key in subject.carry if next_key(key) in known)]


def _is_reproduced(evidence: Evidence, item: Replayed, key: Key) -> bool:
    """Whether a random float output is the recorded one all the same: what was drawn is stored, and
    the module reads it."""
    if key not in comparable_outputs(evidence, evidence.policy, item.truth):
        return False
    if key not in tensor_keys(item.recorded) or not item.recorded.get(key).is_floating_point():
        return False
    return not item.unlike(item.recorded, [key], coarse=recorded_error(evidence))


def memoryless_replay(evidence: Evidence, item: Replayed) -> TensorDictBase:
    """The same steps, each from a fresh state."""
    subject = evidence.policy
    row = item.trajectory.stretches[0].row % evidence.env.rows
    fresh = {key: value[row : row + 1] for key, value in subject.fresh.items()}
    starts = torch.ones(1, item.recorded.shape[1], dtype=torch.bool)
    return unroll_subject(
        subject, subject.inputs_of(item.recorded), starts, StartStates(fresh=fresh)
    )


def acted_mismatch(evidence: Evidence) -> tuple[Replayed, Mismatch] | None:
    """The worst recorded output that is not the sequential policy's, and its trajectory."""
    return evidence.once("acted mismatch", lambda: _acted_mismatch(evidence))


def _acted_mismatch(evidence: Evidence) -> tuple[Replayed, Mismatch] | None:
    worst: tuple[Replayed, Mismatch] | None = None
    coarse = recorded_error(evidence)
    for item in replayed(evidence):
        keys = compared_keys(evidence, item)
        for found in item.unlike(item.recorded, keys, coarse=coarse)[:1]:
            if worst is None or found.difference.relative > worst[1].difference.relative:
                worst = (item, found)
    return worst


def place(
    item: Replayed, step: int, feature: tuple[int, ...] = (), first: int | None = None
) -> Where:
    """Step ``step`` of a trajectory as a place in the collected batches (batch, row)."""
    for stretch in item.trajectory.stretches:
        length = stretch.end - stretch.begin
        if step < length:
            where = (stretch.batch, stretch.row)
            return Where(where, stretch.begin + step, feature, first_step=first)
        step -= length
    return Where(first_step=first)


@dataclass(frozen=True)
class Unreset:
    """A part of the stored state, and at how many recorded starts it is not the initial state."""

    key: Key
    name: str
    starts: int
    behind: int  # those of them that follow another episode's end
    stale: int
    worst: float
    batch: int
    row: int
    step: int


def unreset(evidence: Evidence) -> list[Unreset]:
    """Per carry key (and env row, where there are several): stored states at recorded starts."""
    return evidence.once("unreset", lambda: list(_unreset(evidence)))


def _unreset(evidence: Evidence) -> Iterator[Unreset]:
    recording, subject = evidence.recording, evidence.policy
    if not subject.carry:
        raise NotApplicable("no module of the policy carries state")
    unsteady = {
        key
        for key in subject.primed
        if bool(bits_differ(evidence.env.first.get(key), evidence.env.second.get(key)).any())
    }
    if set(subject.carry) <= unsteady:
        raise Deferred("the primer starts every trajectory from another random state", "WR105")
    for key in subject.carry:
        if key in unsteady or key not in subject.fresh:
            continue
        yield from _unreset_parts(evidence, recording, key)


def _unreset_parts(evidence: Evidence, recording: Recording, key: Key) -> Iterator[Unreset]:
    subject = evidence.policy
    by_row: dict[int, list[tuple[StepPlace, float]]] = {}
    behind: Counter[int] = Counter()
    for number, rows in enumerate(recording.batches):
        value = rows.data.get(key, None)
        if value is None or rows.random:
            continue
        for row, step in _judged_starts(recording, rows):
            fresh = subject.fresh[key][row % recording.env.rows].to(value.dtype)
            size = float(gap(value[row, step], fresh).max())
            if size and not matters(evidence, rows, row, step, key):
                size = 0.0
            by_row.setdefault(row % recording.env.rows, []).append(((number, row, step), size))
            behind[row % recording.env.rows] += int(rows.joints[row, step] == Joint.AFTER_DONE)
    for env_row, seen in by_row.items():
        stale = [item for item in seen if item[1] > 0]
        place_there, size = max(stale or seen, key=lambda item: item[1])
        name = ".".join(key) + (f" of env {env_row}" if len(by_row) > 1 else "")
        counts = len(seen), behind[env_row], len(stale)
        yield Unreset(key, name, *counts, size, *place_there)


def matters(evidence: Evidence, rows: Rows, row: int, step: int, key: Key) -> bool:
    """Whether the stored state at a start changes what the module computes there, in either mode.

    A module that masks a stale state itself, in both modes, is right whatever is stored.
    """
    recorded = rows.data[row : row + 1, step : step + 1]
    fresh = evidence.policy.fresh[key][row % evidence.env.rows].to(recorded.get(key).dtype)
    return reads_at_start(evidence, recorded, key, fresh)


def reads_at_start(evidence: Evidence, start: TensorDictBase, key: Key, other: Tensor) -> bool:
    """Whether ``other`` as the state of a flagged step ``[1, 1]`` gives other outputs, in either
    mode."""
    subject, stored = evidence.policy, start.get(key)
    changed = start.clone().set(key, other.expand_as(stored).clone())
    for run in (_one_start, _one_start_recurrent):
        try:
            old, new = run(evidence, start), run(evidence, changed)
        except Unanswered:
            continue
        keys = [
            k for k in tensor_keys(old) if k in tensor_keys(new) and k not in (key, *subject.carry)
        ]
        if any(bool(bits_differ(old.get(k), new.get(k)).any()) for k in keys):
            return True
    return False


def _one_start(evidence: Evidence, recorded: TensorDictBase) -> TensorDictBase:
    subject = evidence.policy
    state = {k: recorded.get(k)[:, 0] for k in subject.carry if recorded.get(k, None) is not None}
    starts = torch.ones(1, 1, dtype=torch.bool)
    return unroll_subject(subject, subject.inputs_of(recorded), starts, StartStates(fresh=state))


def _one_start_recurrent(evidence: Evidence, recorded: TensorDictBase) -> TensorDictBase:
    subject = evidence.policy
    batch = subject.inputs_of(recorded).copy()
    batch.update(subject.flag_values(torch.ones(1, 1, dtype=torch.bool)))
    answers = [key for key in tensor_keys(recorded) if key[0] == "next"]
    for key in (*subject.carry, *answers):
        if recorded.get(key, None) is not None:
            batch.set(key, recorded.get(key))
    return recurrent_rows(evidence, subject, batch)


def _judged_starts(recording: Recording, rows: Rows) -> list[tuple[int, int]]:
    """Starts that the env's done flags or a true start flag announce."""
    flag = recording.flag(rows)
    announced = rows.joints == Joint.AFTER_DONE
    if flag is not None:
        announced = announced | ((rows.joints == Joint.BEGINS) & flag)
    return [(row, step) for row, step in (announced & rows.valid).nonzero().tolist()]
