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
from rnncheck.pipeline.placing import on_cpu
from rnncheck.pipeline.subject.env_facts import Env
from rnncheck.pipeline.subject.env_state import env_state
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
    actions: Tensor  # [steps, numbers], in float64
    rewards: Tensor  # [steps], in float64
    env_states: Tensor | None = None  # [steps, numbers], where the env shows its own

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
            inputs = on_cpu(subject.inputs_of(td.clone()).reshape(rows))
            td.update(_asked(subject, td, state, first))
            hidden = env_state(env, td)
            hidden = None if hidden is None else on_cpu(hidden)
            td.update(call(network, td.copy()))
            own = {k: _written(td, k, v, rows) for k, v in state.items()}
            stepped = env.step(td)
            ends = rows_done(stepped["next"], done_keys(env), subject.rank)
            taken = _Taken(_actions(env, td, rows), _rewards(env, stepped["next"], rows), hidden)
            running.note(inputs, state, taken, ends)
            if running.finished:
                break
            td = env.maybe_reset(env.step_mdp(stepped)) if ends.any() else env.step_mdp(stepped)
    return running.episodes(seed)


@dataclass(frozen=True)
class _Taken:
    """One step of all envs: actions ``[rows, numbers]``, rewards ``[rows]``, the envs' own
    states."""

    actions: Tensor
    rewards: Tensor
    env_states: Tensor | None


class _Rows:
    """What happens to each env until its first end."""

    def __init__(self, rows: int) -> None:
        self.inputs: list[list[TensorDictBase]] = [[] for _ in range(rows)]
        self.states: list[list[States]] = [[] for _ in range(rows)]
        self.taken: list[_Taken] = []
        self.ended = [False] * rows

    @property
    def finished(self) -> bool:
        return all(self.ended)

    def note(self, inputs: TensorDictBase, state: States, taken: _Taken, ends: Tensor) -> None:
        self.taken.append(taken)
        for row in range(len(self.ended)):
            if not self.ended[row]:
                self.inputs[row].append(inputs[row])
                self.states[row].append({k: v[row].clone() for k, v in state.items()})
                self.ended[row] = bool(ends[row])

    def episodes(self, seed: int) -> list[PlayedEpisode]:
        return [self._episode(seed, row) for row in range(len(self.ended))]

    def _episode(self, seed: int, row: int) -> PlayedEpisode:
        inputs, states = self.inputs[row], self.states[row]
        taken = self.taken[: len(inputs)]
        rewards = torch.stack([one.rewards[row] for one in taken])
        hidden = [one.env_states[row] for one in taken if one.env_states is not None]
        return PlayedEpisode(
            seed,
            torch.stack(inputs),
            {key: torch.stack([one[key] for one in states]) for key in states[0]},
            sum(rewards.tolist()),
            self.ended[row],
            torch.stack([one.actions[row] for one in taken]),
            rewards,
            torch.stack(hidden) if len(hidden) == len(taken) else None,
        )


def _asked(subject: Subject, td: TensorDictBase, state: States, first: bool) -> TensorDictBase:
    rows = max(1, td.numel())
    given = TensorDict({}, batch_size=[rows])
    given.update(subject.flag_values(torch.full((rows,), first, dtype=torch.bool)))
    given.update(state)
    return given.reshape(td.shape)


def _written(td: TensorDictBase, key: Key, old: Tensor, rows: int) -> Tensor:
    new = td.get(next_key(key), None)
    return old if new is None else on_cpu(new).reshape(rows, *new.shape[td.ndim :])


def _actions(env: Env, td: TensorDictBase, rows: int) -> Tensor:
    """What was done, ``[rows, numbers]``."""
    parts = [td.get(as_key(key), None) for key in env.action_keys]
    wide = [one.detach().double().cpu().reshape(rows, -1) for one in parts if one is not None]
    return torch.cat([torch.zeros(rows, 0, dtype=torch.float64), *wide], 1)


def _rewards(env: Env, nxt: TensorDictBase, rows: int) -> Tensor:
    """The reward of each env ``[rows]``: the mean over its agents, the sum over its keys."""
    parts = [nxt.get(as_key(key)) for key in env.reward_keys]
    return torch.stack([part.double().cpu().reshape(rows, -1).mean(1) for part in parts]).sum(0)


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
