"""What an env shows that shows several things at once, in a dict: one of them stands for its
observation, the others beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.watching.forms.fewer_bits import in_bits_of
from rnncheck.watching.forms.plain_calls import OBSERVATION
from rnncheck.watching.forms.structures import Path, leaves_in

_Array = np.ndarray[Any, Any]
_NUMBERS = "biuf"  # kinds of arrays that hold some
_WIDEST = 256  # numbers of an observation that a part of is looked for in: no picture


@dataclass(frozen=True)
class ShownEntry:
    """The parts of what is shown that stand under one key, flat where they are several; ``shape``
    is that of one env, of some of the ``numbers`` alone where these are named."""

    paths: tuple[Path, ...]
    shape: tuple[int, ...]
    dtype: str
    numbers: tuple[int, ...] = ()

    def of(self, shown: Any, lead: tuple[int, ...]) -> _Array:
        """``[*lead, *shape]`` of what envs ``lead`` show."""
        leaves = dict(leaves_in(shown))
        parts = [np.asarray(leaves[path]).reshape(*lead, -1) for path in self.paths]
        whole = np.concatenate(parts, -1)
        whole = whole[..., list(self.numbers)] if self.numbers else whole
        return whole.reshape(*lead, *self.shape).astype(self.dtype)


@dataclass(frozen=True)
class ShownAs:
    """By key what is shown."""

    entries: Mapping[str, ShownEntry]

    def columns(self, shown: Sequence[Any], lead: tuple[int, ...]) -> dict[Key, Tensor]:
        """``[steps, *lead, ...]`` of what was shown at each step."""
        return {
            (name,): torch.as_tensor(np.stack([entry.of(one, lead) for one in shown]))
            for name, entry in self.entries.items()
        }


def shown_as(shown: Sequence[Any], lead: tuple[int, ...], given: Iterable[Tensor]) -> ShownAs:
    """What is shown at each of the steps, of envs ``lead``. The widest part that is ``given`` to
    who acts, ``[steps, ...]``, stands for the observation; else all of it, if that is, or some
    numbers of a part."""
    whole = {path: _laid([dict(leaves_in(one))[path] for one in shown]) for path in _paths(shown)}
    parts = {path: value for path, value in whole.items() if value is not None}
    held = [one.detach().cpu().reshape(len(shown), -1).double().numpy() for one in given]
    flat = {path: one.reshape(len(shown), -1) for path, one in parts.items()}
    fitting = [path for path, one in flat.items() if any(np.array_equal(one, h) for h in held)]
    if not fitting and len(parts) > 1:
        rows = [one.reshape(len(shown), *lead, -1) for one in parts.values()]
        together = np.concatenate(rows, -1)
        if any(np.array_equal(together.reshape(len(shown), -1), one) for one in held):
            kind = np.result_type(*(np.dtype(_kind(one)) for one in parts.values())).name
            entry = ShownEntry(tuple(parts), together.shape[1 + len(lead) :], kind)
            return ShownAs({OBSERVATION: entry})
    some = {} if fitting else _some_given(parts, lead, held)
    main = max(fitting or some or parts, key=lambda path: flat[path].shape[1], default=())
    names = {path: OBSERVATION if path == main else _name(path) for path in parts}
    entries = {
        names[path]: ShownEntry((path,), one.shape[1 + len(lead) :] or (1,), _kind(one))
        for path, one in parts.items()
    }
    if main in some:
        numbers = some[main]
        entries[OBSERVATION] = replace(entries[OBSERVATION], shape=(len(numbers),), numbers=numbers)
    return ShownAs(entries)


def _some_given(
    parts: Mapping[Path, _Array], lead: tuple[int, ...], held: Sequence[_Array]
) -> dict[Path, tuple[int, ...]]:
    """Of what is shown as floats which numbers are given, where something is given that is some of
    them at every step and no constant."""
    found = dict[Path, tuple[int, ...]]()
    for path, one in parts.items():
        seen = torch.as_tensor(one.reshape(len(one) * int(np.prod(lead)), -1)).double()
        for value in held if one.dtype.kind == "f" else ():
            changes = value.shape[1] > 0 and bool((value != value[:1]).any(0).all())
            numbers = some_of(torch.as_tensor(value), seen) if changes else None
            if numbers is not None and len(numbers) > len(found.get(path, ())):
                found[path] = numbers
    return found


def some_of(given: Tensor, seen: Tensor) -> tuple[int, ...] | None:
    """Which of the numbers ``[steps, shown]`` are given at every step, where some of them are."""
    if given.numel() % len(seen) or seen.shape[1] > _WIDEST:
        return None
    seen = in_bits_of(given, seen)
    mine = given.reshape(len(seen), -1).to(seen.dtype)
    if mine.shape[1] >= seen.shape[1]:
        return None
    same = (mine.unsqueeze(2) == seen.unsqueeze(1)).all(0)  # [given, shown]
    return tuple(same.double().argmax(1).tolist()) if bool(same.any(1).all()) else None


def _name(path: Path) -> str:
    return "_".join((OBSERVATION, *path))


def _paths(shown: Sequence[Any]) -> list[Path]:
    """The parts that each of them has."""
    first, *others = ([path for path, _ in leaves_in(one)] for one in shown)
    return [path for path in first if all(path in one for one in others)]


def _laid(values: list[Any]) -> _Array | None:
    """Those of a part at each step; None for what is no numbers, or changes its form."""
    arrays = [np.asarray(one) for one in values]
    if len({one.shape for one in arrays}) > 1 or arrays[0].dtype.kind not in _NUMBERS:
        return None
    return np.stack(arrays)


def _kind(value: _Array) -> str:
    """As which it is kept: flags as numbers."""
    return "uint8" if value.dtype.kind == "b" else value.dtype.name


def _space(entry: ShownEntry, whole: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    """Of one entry; what an integer may be is read off the env's own space."""
    kind, space = np.dtype(entry.dtype), whole
    for name in entry.paths[0] if len(entry.paths) == 1 else ():
        inner: Any = space
        space = inner[int(name) if isinstance(space, gymnasium.spaces.Tuple) else name]
    if kind.kind == "f":
        return gymnasium.spaces.Box(-np.inf, np.inf, entry.shape, kind.type)
    low: Any = np.iinfo(kind).min if kind.kind in "iu" else 0
    high: Any = np.iinfo(kind).max if kind.kind in "iu" else 1
    if isinstance(space, gymnasium.spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n) - 1
    elif isinstance(space, gymnasium.spaces.MultiDiscrete):
        low, high = 0, int(space.nvec.min()) - 1
    elif isinstance(space, gymnasium.spaces.Box):
        low, high = space.low.min(), space.high.max()
    return gymnasium.spaces.Box(low, high, entry.shape, kind.type)


class ShowsEntries(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows what an env shows by these keys."""

    def __init__(self, env: Any, shown: ShownAs) -> None:
        super().__init__(env)
        self._shown = shown
        spaces: dict[str, gymnasium.Space[Any]] = {
            name: _space(one, env.observation_space) for name, one in shown.entries.items()
        }
        self.observation_space = gymnasium.spaces.Dict(spaces)

    def observation(self, observation: Any) -> Any:
        """By key, in the form of one env."""
        return {name: one.of(observation, ()) for name, one in self._shown.entries.items()}


def shown_keys(batch: TensorDictBase) -> list[Key]:
    """The entries of a batch that are what an env showed, the observation first."""
    beside = [key for key in tensor_keys(batch) if key[0].startswith(f"{OBSERVATION}_")]
    return [(OBSERVATION,), *beside]


def with_parts_copied(shown: Any) -> Any:
    """The same, which nobody else writes into."""
    if isinstance(shown, np.ndarray):
        return np.array(shown, copy=True)
    if isinstance(shown, Mapping):
        return {name: with_parts_copied(one) for name, one in shown.items()}
    return tuple(map(with_parts_copied, shown)) if type(shown) is tuple else shown


def with_rows(shown: Any, other: Mapping[int, Any]) -> Any:
    """What several envs show, with what those with these numbers showed instead."""
    if isinstance(shown, Mapping):
        return {
            name: with_rows(one, {number: own[name] for number, own in other.items()})
            for name, one in shown.items()
        }
    if not isinstance(shown, np.ndarray):
        return shown
    made = np.array(shown, copy=True)
    for number, own in other.items():
        made[number] = own
    return made


def side_by_side_shown(shown: Sequence[Any]) -> Any:
    """What several envs show, as one thing of all of them."""
    if all(isinstance(one, Mapping) for one in shown) and len({tuple(one) for one in shown}) == 1:
        return {name: side_by_side_shown([one[name] for one in shown]) for name in shown[0]}
    return np.stack([np.asarray(one) for one in shown])
