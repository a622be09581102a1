"""Tensordict keys, always as tuples of strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor

Key = tuple[str, ...]

# Number of a collected step from 1 on: batch-major, then row, then time; 0 and -1 are padding.
STEP_KEY: Key = ("rnncheck", "step")
# What a loop added to its rewards where a time limit cut an episode, 0 elsewhere.
REWARD_ADDED: Key = ("next", "reward_added")
LATER_KEY = "later"  # of a joint that was seen behind the batches that are judged


def as_key(key: Any) -> Key:
    """``"a"`` and nested tuples as one flat tuple of strings."""
    if isinstance(key, str):
        return (key,)
    return tuple(part for item in key for part in as_key(item))


def dotted(key: Key) -> str:
    """``("next", "h")`` as ``next.h``."""
    return ".".join(key)


def tensor_keys(td: TensorDictBase) -> tuple[Key, ...]:
    """All leaf keys of ``td`` that hold a tensor."""
    return tuple(key for key, _ in tensor_items(td))


def present(td: TensorDictBase | None, keys: Iterable[Key]) -> tuple[Key, ...]:
    """Those of ``keys`` that ``td`` holds."""
    return () if td is None else tuple(key for key in keys if key in tensor_keys(td))


def tensor_items(td: TensorDictBase) -> list[tuple[Key, Tensor]]:
    """All leaves of ``td`` that are tensors, by key, in one pass."""
    items = td.items(include_nested=True, leaves_only=True)
    return [(as_key(key), value) for key, value in items if isinstance(value, Tensor)]


def root_keys(td: TensorDictBase) -> tuple[Key, ...]:
    """The leaf keys of one step's own entries: without ``next`` and the collector's bookkeeping."""
    return tuple(key for key in tensor_keys(td) if key[0] not in ("next", "collector"))


def declared(module: object, attribute: str) -> tuple[Key, ...]:
    """``module.in_keys`` or ``module.out_keys`` as tuples; empty when the module declares none."""
    keys: Iterable[Any] | None = getattr(module, attribute, None)
    if keys is None or isinstance(keys, str):
        return ()
    try:
        return tuple(as_key(key) for key in keys)
    except TypeError:
        return ()
