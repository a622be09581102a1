"""What one step of a rollout shows, its last or its first, and what names say of it."""

from __future__ import annotations

from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.plain_calls import ENDS, ToldCall
from rnncheck.watching.forms.storages import DONE, Storage, anew
from rnncheck.watching.forms.structures import Path

OVER: tuple[Key, ...] = (DONE, ("next", ENDS[0]), ("next", ENDS[1]))
GIVEN: tuple[Key, ...] = (("next", "reward"), *OVER)  # one number for each env
OPPOSITE = ("mask", "not", "non", "live", "cont", "keep", "going")
_STARTS_NAMED = ("first", "start", "begin", "init")
_REWARDS_NAMED = ("r", "pr", "rs")
_ENDS_NAMED = ("done", "end", "over", "term", "start")


def told_of_last(
    held: Tensor, batch: TensorDictBase, told: ToldCall, of_what: str
) -> Storage | None:
    """What a next step would be shown of the last one, such as its reward."""
    for one in told.before.values():
        if one.one_hot or one.source not in batch.keys(True, True):
            continue
        last = batch.get(one.source)[:, -1]
        wanted = last if one.stays else anew(last, batch)
        if held.numel() == wanted.numel() and is_equal_there(held.flatten(), wanted.flatten()):
            shape, rows = tuple(held.shape), len(last)
            made = Storage(one.source, shape, held.dtype, at=-1, of_what=of_what, rows=rows)
            return replace(made, fresh=not one.stays)
    return None


def names_a_start(path: Path) -> bool:
    """The same of the flag of a first step."""
    return any(word in path[-1].lower() for word in _STARTS_NAMED)


def names_a_reward(path: Path) -> bool:
    """Tells a reward that is one at every step from the flag of a step that is no first one."""
    words = path[-1].lower().split("_")
    return any(word in _REWARDS_NAMED or word.startswith("rew") for word in words)


def names_an_end(path: Path) -> bool:
    """Tells a flag from other zeros and ones, which nothing else does."""
    return any(word in path[-1].lower() for word in (*_ENDS_NAMED, *OPPOSITE))


def last_step(
    held: Tensor, batch: TensorDictBase, keys: tuple[Key, ...], of_what: str, named: bool = False
) -> Storage | None:
    for key in keys:
        last = batch.get(key)[:, -1]
        alike = held.is_floating_point() == last.is_floating_point()
        alike = alike or (key != DONE and key not in GIVEN and last.dtype != torch.bool)
        alike = alike or (key == DONE and (named or bool(last.any())))  # flags as numbers
        if held.numel() == last.numel() and alike and same_of_rows(held, last, batch):
            rows, shape = len(last), tuple(held.shape)
            return Storage(key, shape, held.dtype, at=-1, of_what=of_what, rows=rows)
    tells = named or bool((held != held.flatten()[0]).any())
    return _last_mask(held, batch, of_what) if DONE in keys and tells else None


def _last_mask(held: Tensor, batch: TensorDictBase, of_what: str) -> Storage | None:
    """The opposite of the flag, as a number."""
    last, rows = batch.get(DONE)[:, -1], batch.shape[0]
    if held.numel() != last.numel() or held.dtype == torch.bool:
        return None
    if not torch.equal(1 - held.detach().cpu().double().flatten(), last.double().flatten()):
        return None
    one = Storage(DONE, tuple(held.shape), held.dtype, at=-1, of_what=of_what, rows=rows)
    return replace(one, scale=(-1.0, 1.0))


def same_of_rows(held: Tensor, last: Tensor, batch: TensorDictBase) -> bool:
    """Whether it is that for each env; one whose episode ended shows what came next, which is
    another's."""
    rows = len(last)
    alike = held.detach().cpu().reshape(rows, -1) == last.to(held.dtype).reshape(rows, -1)
    ended = batch.get(DONE)[:, -1].reshape(rows) & (last.dtype != torch.bool)
    return bool((alike.all(1) | ended).all()) and not bool(ended.all() and not alike.all())


def is_equal_there(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.detach().cpu(), other.detach().cpu().to(one.dtype))
