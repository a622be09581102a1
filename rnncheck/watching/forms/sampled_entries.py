"""Of which entry of a step a variable of a sampled batch holds the values."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.held_as import Scale, is_shifted_mask, scale_of
from rnncheck.watching.forms.one_step import names_a_start, names_an_end
from rnncheck.watching.forms.plain_calls import (
    ACTION,
    ENDS,
    FLAG,
    MASK_OF_ROWS,
    MOSTLY,
    OBSERVATION,
)
from rnncheck.watching.forms.storages import DONE
from rnncheck.watching.forms.structures import Path

_NEXT = ("next", "new", "after", "follow", "prime", "succ", "obs2")
REWARD: Key = ("next", "reward")
END_FLAGS: tuple[Key, ...] = (DONE, ("next", ENDS[0]), ("next", ENDS[1]))
FLAGS: tuple[Key, ...] = (*END_FLAGS, (FLAG,))


def entry_of(
    path: Path, mine: Tensor, batch: TensorDictBase, shown: list[Key], observed: bool
) -> tuple[Key, Scale | None] | None:
    """The entry of a step that it is: of several the one that its name tells."""
    if observed:
        return (OBSERVATION,), None
    if shows_the_next(path) and mine.shape == batch.get(OBSERVATION).shape:
        return ("next", OBSERVATION), None  # whatever it shows: that is asked
    keys: list[Key] = [(ACTION,), REWARD, *FLAGS, ("next", OBSERVATION), (OBSERVATION,), *shown]
    keys.append(MASK_OF_ROWS)
    flat = mine.reshape(*batch.shape, -1)
    mask = batch.get(MASK_OF_ROWS, None)
    data = torch.ones(batch.shape, dtype=torch.bool) if mask is None else mask[..., 0]
    found = list[tuple[float, bool, Key, Scale | None]]()
    for key in keys:
        if key not in batch.keys(True, True):
            continue
        theirs = batch.get(key).reshape(*batch.shape, -1)
        if theirs.shape != flat.shape:
            continue
        for scale in _scales(key, flat[data], theirs[data]):
            wanted = theirs.double() if scale is None else theirs.double() * scale[0] + scale[1]
            alike = torch.isclose(flat.double(), wanted, 1e-5, 1e-6).all(-1)
            share = float(alike[data].double().mean())
            if theirs.dtype == torch.bool and share < 1 and not bool(flat[data].diff(dim=0).any()):
                continue  # of flags, one that never changes is only what is the same
            if share >= MOSTLY and (key != MASK_OF_ROWS or bool(alike.all())):
                found.append((share, is_named_so(path, key), key, scale))
    if not found:
        return None
    ends = names_an_end(path)
    flags = {key for _, _, key, _ in found if ends and key in FLAGS}
    _, _, key, scale = max(found, key=lambda one: _rank(one, one[2] in flags))
    return key, scale


def _rank(
    one: tuple[float, bool, Key, Scale | None], flag: bool
) -> tuple[bool, bool, float, bool, bool, bool]:
    """Its name counts most beside the same bits, for flags that are seldom true are all alike; else
    how many are the same."""
    share, named, _, scale = one
    same = share == 1
    return same, same and named, share, named, flag, scale is None


def _scales(key: Key, mine: Tensor, theirs: Tensor) -> list[Scale | None]:
    if theirs.dtype == torch.bool:
        return [None, (-1.0, 1.0)]
    if key not in (REWARD, (ACTION,)) or not mine.is_floating_point():
        return [None]
    scale = scale_of(mine, theirs.to(mine.dtype))
    return [None] if is_shifted_mask(mine, scale) else [None, scale]


def is_named_so(path: Path, key: Key) -> bool:
    """Tells flags from each other, which are often all false."""
    name, own = path[-1].lower(), str(key[-1])
    begins = key == (FLAG,) and names_a_start(path)
    return begins or own in name or name.strip("_bs") in own or own[:4] in name


def shows_the_next(path: Path) -> bool:
    """Tells what is meant for the next observation from a copy of the one that a step had."""
    name = path[-1].lower()
    return name[:1] == "n" or any(word in name for word in _NEXT)
