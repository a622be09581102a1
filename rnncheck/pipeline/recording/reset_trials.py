"""What a reset of an env shows after different histories.

A history is two episodes of a new env, each broken off by a reset; the same actions and seeds give
the same one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase, TransformedEnv
from torchrl.envs.batched_envs import BatchedEnvBase
from torchrl.envs.transforms import VecNorm

from rnncheck.numerics.difference import gap
from rnncheck.pipeline.keys import Key, tensor_items
from rnncheck.pipeline.subject.env_facts import close_env, transforms
from rnncheck.pipeline.subject.modes import MEASURING_SEED, measuring

FIRST_STEP = "first step"  # ahead of the keys of what the step behind a reset shows
LONGEST = 12  # steps of an episode of a history. Chosen: CartPole's random play lasts as long
TRIALS = 8  # further resets whose values are held against the step before them
# Of the largest value: what a simulator's warm start leaves. Chosen far below what matters.
ROUNDING = 1e-5
FEWEST = 3  # different values among the trials, below which a copy may be chance


@dataclass(frozen=True)
class Residue:
    """What is left of a history in one entry of a reset, or of the ``FIRST_STEP`` behind it; sizes
    are of the largest difference.

    ``early`` is what the episode before the last one changes, ``recent`` what the last one does.
    """

    key: Key
    early: float
    recent: float
    copied: bool = False  # known by copies of the last step's values alone
    by: str = "actions"  # what the histories differ in


@dataclass(frozen=True)
class ResetTrials:
    """``steady`` entries are the same after the same history; of the ``moving`` ones only copies
    can tell."""

    steady: tuple[Key, ...]
    moving: tuple[Key, ...]
    residues: tuple[Residue, ...]
    normalises: bool  # the env has TorchRL's running normalisation, which remembers by design


class Undecided(Exception):
    """No two histories could be made to differ."""


def look_behind(
    env: EnvBase, make_env: Callable[[], EnvBase], keys: tuple[Key, ...]
) -> ResetTrials:
    """Reset envs after histories that differ, and compare ``keys``. ``env`` is played where others
    take long to start."""
    with (
        _other_randomness(),
        measuring(recurrent=False, explore=True),
        closing(_Player(env, make_env, keys)) as player,
    ):
        every = (*keys, *((FIRST_STEP, *key) for key in keys))
        steady, residues = _compared(player.histories(), every, "actions")
        if not player.differed and not residues and (shown := player.other_draws()):
            steady, residues = _compared(shown, every, "seeds")
        moving = tuple(key for key in keys if key not in steady)
        residues += [Residue(key, 0.0, 1.0, copied=True) for key in player.copies(moving)]
        normalises = any(isinstance(one, VecNorm) for one in transforms(player.env))
    steady = tuple(key for key in steady if key[0] != FIRST_STEP)
    return ResetTrials(steady, moving, tuple(residues), normalises)


def _compared(
    shown: tuple[dict[Key, Tensor], ...], keys: tuple[Key, ...], by: str
) -> tuple[tuple[Key, ...], list[Residue]]:
    """What is the same after the same history, and what is left there of others."""
    base, again, recent, *early = shown
    keys = tuple(key for key in keys if all(key in one for one in shown))
    steady = tuple(k for k in keys if _size(base[k], again[k]) == 0.0)
    sizes = {
        key: (max(_size(base[key], one[key]) for one in early), _size(base[key], recent[key]))
        for key in steady
    }
    return steady, [Residue(key, *both, by=by) for key, both in sizes.items() if max(both) > 0]


@contextmanager
def _other_randomness() -> Iterator[None]:
    """Leave the random numbers of Python and numpy as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


class _Player:
    """Plays histories, each made of two numbers that choose the actions of its episodes.

    Each has an env of its own, so that what is never cleared is told from chance; where envs have
    workers, which take long to start, all have ``env``.
    """

    def __init__(
        self, env: EnvBase, make_env: Callable[[], EnvBase], keys: tuple[Key, ...]
    ) -> None:
        self.env, self.make_env, self.keys, self.steps = env, make_env, keys, LONGEST
        self.opened = list[EnvBase]()
        self.last: TensorDictBase | None = None  # the step before the reset
        self.differed = True  # what was seen there, after two last episodes

    def close(self) -> None:
        """Close the envs that were made."""
        for env in self.opened:
            close_env(env)

    def histories(self) -> tuple[dict[Key, Tensor], ...]:
        """What a reset shows after one history, after the same again, after another last episode
        and after two other episodes before it; all of as many steps."""
        while True:
            lengths = list[int]()
            base, ended, seen = self.after(1, 2, lengths), self._action(), self._seen()
            again = self.after(1, 2, lengths)
            recent = self._other_ending(ended, lengths)
            self.differed = any(_size(seen[k], now) > 0 for k, now in self._seen().items())
            early = [self.after(number, 2, lengths) for number in (3, 5)]
            if min(lengths) >= self.steps:
                return base, again, recent, *early
            self.steps = min(lengths)

    def other_draws(self) -> tuple[dict[Key, Tensor], ...]:
        """The same with other seeds in the place of other actions; nothing where the seed before a
        reset does not settle what it shows."""
        if not self._seeds_settle():
            return ()
        while True:
            lengths = list[int]()
            seeds = ((0, 0), (0, 0), (0, 2), (2, 0), (3, 0))
            shown = [self.after(1, 2, lengths, drawn) for drawn in seeds]
            if min(lengths) >= self.steps:
                return tuple(shown)
            self.steps = min(lengths)

    def _seeds_settle(self) -> bool:
        """The last of several seeds alone says what a reset shows."""
        shown = []
        for first in (0, 1):
            self._renew()
            for seed in (first, 2):
                self._seed(MEASURING_SEED + seed)
            shown.append(self.env.reset())
        return all(_size(shown[0].get(key), shown[1].get(key)) == 0.0 for key in self.keys)

    def _seen(self) -> dict[Key, Tensor]:
        """What was observed at the step before the reset."""
        last = self.last
        found = {} if last is None else {k: last.get(("next", *k), None) for k in self.keys}
        return {key: value.clone() for key, value in found.items() if value is not None}

    def _other_ending(self, ended: Tensor, lengths: list[int]) -> dict[Key, Tensor]:
        """A history whose last action is another one."""
        for number in range(6, 20):
            shown = self.after(1, number, lengths)
            if ended.shape != self._action().shape or bool((ended != self._action()).any()):
                return shown
        raise Undecided("every action that the env draws is the same")

    def after(
        self, early: int, recent: int, lengths: list[int], draws: tuple[int, int] | None = None
    ) -> dict[Key, Tensor]:
        """What the reset behind a history shows, and a step behind it with an action that is always
        the same; ``lengths`` gets those of its episodes. ``draws`` choose a seed for each of
        these."""
        self._renew()
        self._seed(MEASURING_SEED)
        for number, draw in zip((early, recent), draws or (None, None), strict=True):
            if draw is not None:
                self._seed(MEASURING_SEED + 10 * draw + number)
            lengths.append(self._episode(number))
        self._seed(MEASURING_SEED + 1)
        shown = self.env.reset()
        found = {key: shown.get(key).clone() for key in self.keys}
        torch.manual_seed(MEASURING_SEED)
        after = self.env.step(self.env.rand_action(shown)).get("next")
        own = {key: after.get(key, None) for key in self.keys}
        steps = {(FIRST_STEP, *key): one.clone() for key, one in own.items() if one is not None}
        return {**found, **steps}

    def _renew(self) -> None:
        inner = self.env
        while isinstance(inner, TransformedEnv):
            inner = inner.base_env
        if not isinstance(inner, BatchedEnvBase):
            self.env = self.make_env()
            self.opened.append(self.env)

    def _episode(self, number: int) -> int:
        td, played = self.env.reset(), 0
        for step in range(self.steps):
            torch.manual_seed(1000 * number + step)
            stepped = self.env.step(self.env.rand_action(td))
            self.last, played = stepped.clone(), step + 1
            if any(bool(stepped.get(("next", key)).any()) for key in self.env.done_keys):
                break
            td = self.env.step_mdp(stepped)
        return played

    def _action(self) -> Tensor:
        if self.last is None:
            raise Undecided("no step was played")
        values = [self.last.get(key) for key in self.env.action_keys]
        return torch.cat([value.double().flatten() for value in values])

    def _seed(self, seed: int) -> None:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        with suppress(Exception):  # an env that takes no seed: what moves then is told apart
            self.env.set_seed(seed)

    def copies(self, keys: tuple[Key, ...]) -> list[Key]:
        """Entries whose reset holds, in every trial, a value that stood at the step before it."""
        if not keys:
            return []
        shown: dict[Key, list[Tensor]] = {key: [] for key in keys}
        before: list[Tensor] = []
        for number in range(TRIALS):
            after = self.after(1, 30 + number, [])
            if self.last is None:
                return []
            items = [value for _, value in tensor_items(self.last)]
            before.append(torch.cat([value.double().flatten() for value in items]))
            for key in keys:
                shown[key].append(after[key].double().flatten())
        known = _telling(torch.stack(before))
        return [key for key in keys if _telling(torch.stack(shown[key])) & known]


def _telling(values: Tensor) -> set[bytes]:
    """Columns of ``[trials, entries]`` that take several values over the trials."""
    columns = [column for column in values.T if len(column.unique()) >= FEWEST]
    return {column.contiguous().numpy().tobytes() for column in columns}


def _size(one: Tensor, other: Tensor) -> float:
    """The largest difference; 0 where it is rounding alone."""
    if one.shape != other.shape:
        return 1.0
    worst = float(gap(one, other).max()) if one.numel() else 0.0
    largest = float(one.double().abs().nan_to_num().max()) if one.numel() else 0.0
    return worst if worst > ROUNDING * max(largest, ROUNDING) else 0.0
