"""Playing episodes with a policy: with its own state, or with one that is reset, foreign or
frozen."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, as_key
from rnncheck.pipeline.subject.env_facts import Env
from rnncheck.pipeline.subject.heads import done_keys, rows_done
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.pipeline.subject.passes import call
from rnncheck.pipeline.subject.subject import Subject, next_key

States = dict[Key, Tensor]
_SEEDS = 2**31  # what a seed is taken modulo: numpy and the envs take that


@dataclass(frozen=True)
class PlayedEpisode:
    """One env's episode, or its first ``most`` steps: ``inputs`` and ``states`` (those before each
    step) are ``[steps, ...]``."""

    seed: int
    inputs: TensorDictBase
    states: Mapping[Key, Tensor]
    total: float  # the return
    ended: bool

    @property
    def length(self) -> int:
        return int(self.inputs.shape[0])


class StateTreatment:
    """What the policy reads as its state; this one leaves it as it is."""

    name = "own state"

    def given(self, subject: Subject, t: int, own: States) -> tuple[States, bool]:
        """The state that is read at step ``t``, and whether the step is marked as a start."""
        return own, t == 0


@dataclass(frozen=True)
class ResetEvery(StateTreatment):
    """A start at every ``every``-th step."""

    every: int

    @property
    def name(self) -> str:  # type: ignore[override]
        return "reset every step" if self.every == 1 else f"reset every {self.every} steps"

    def given(self, subject: Subject, t: int, own: States) -> tuple[States, bool]:
        return (dict(subject.fresh), True) if t % self.every == 0 else (own, False)


@dataclass(frozen=True)
class FromOther(StateTreatment):
    """The state that another episode had at the same step, or at its last."""

    other: Mapping[Key, Tensor]
    name = "state of another episode"

    def given(self, subject: Subject, t: int, own: States) -> tuple[States, bool]:
        if t == 0:
            return own, True
        return {k: v[min(t, len(v) - 1)].expand_as(own[k]) for k, v in self.other.items()}, False


@dataclass
class FrozenState(StateTreatment):
    """The state that the first step wrote, for ever."""

    name = "frozen state"
    first: States = field(default_factory=dict)

    def given(self, subject: Subject, t: int, own: States) -> tuple[States, bool]:
        if t == 1:
            self.first = own
        return (own, True) if t == 0 else (self.first, False)


OWN_STATE = StateTreatment()


def play_episode(
    subject: Subject,
    env: Env,
    seed: int,
    most: int,
    treatment: StateTreatment = OWN_STATE,
) -> list[PlayedEpisode]:
    """One episode of each env that runs side by side; the same seed gives the env the same start
    and the same noise."""
    rows = max(1, torch.Size(subject.batch_shape).numel())
    network, running = subject.copy(), _Rows(rows)
    with _seeded(seed), measuring(recurrent=False, seed=seed % _SEEDS):
        env.set_seed(seed % _SEEDS)
        td, own = env.reset(), dict(subject.fresh)
        for t in range(most):
            state, first = treatment.given(subject, t, own)
            inputs = subject.inputs_of(td.clone()).reshape(rows)
            td.update(_asked(subject, td, state, first))
            td.update(call(network, td.copy()))
            own = {k: _written(td, k, v, rows) for k, v in state.items()}
            stepped = env.step(td)
            ends = rows_done(stepped["next"], done_keys(env), subject.rank)
            running.note(inputs, state, _rewards(env, stepped["next"], rows), ends)
            if running.finished:
                break
            td = env.maybe_reset(env.step_mdp(stepped)) if ends.any() else env.step_mdp(stepped)
    return running.episodes(seed)


class _Rows:
    """What happens to each env until its first end."""

    def __init__(self, rows: int) -> None:
        self.inputs: list[list[TensorDictBase]] = [[] for _ in range(rows)]
        self.states: list[list[States]] = [[] for _ in range(rows)]
        self.totals = [0.0] * rows
        self.ended = [False] * rows

    @property
    def finished(self) -> bool:
        return all(self.ended)

    def note(self, inputs: TensorDictBase, state: States, rewards: Tensor, ends: Tensor) -> None:
        for row in range(len(self.ended)):
            if not self.ended[row]:
                self.inputs[row].append(inputs[row])
                self.states[row].append({k: v[row].clone() for k, v in state.items()})
                self.totals[row] += float(rewards[row])
                self.ended[row] = bool(ends[row])

    def episodes(self, seed: int) -> list[PlayedEpisode]:
        found = []
        for inputs, states, total, ended in zip(
            self.inputs, self.states, self.totals, self.ended, strict=True
        ):
            stacked = {key: torch.stack([one[key] for one in states]) for key in states[0]}
            found.append(PlayedEpisode(seed, torch.stack(inputs), stacked, total, ended))
        return found


def _asked(subject: Subject, td: TensorDictBase, state: States, first: bool) -> TensorDictBase:
    rows = max(1, td.numel())
    given = TensorDict({}, batch_size=[rows])
    given.update(subject.flag_values(torch.full((rows,), first, dtype=torch.bool)))
    given.update(state)
    return given.reshape(td.shape)


def _written(td: TensorDictBase, key: Key, old: Tensor, rows: int) -> Tensor:
    new = td.get(next_key(key), None)
    return old if new is None else new.reshape(rows, *new.shape[td.ndim :])


def _rewards(env: Env, nxt: TensorDictBase, rows: int) -> Tensor:
    """The reward of each env ``[rows]``: the mean over its agents, the sum over its keys."""
    parts = [nxt.get(as_key(key)) for key in env.reward_keys]
    return torch.stack([part.double().reshape(rows, -1).mean(1) for part in parts]).sum(0)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Python's and numpy's own random numbers, for envs that draw theirs from there."""
    python, array = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % _SEEDS)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(array)
