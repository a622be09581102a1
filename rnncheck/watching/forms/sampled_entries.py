"""Of which entry of a step a variable of a sampled batch holds the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    OF_STEP_BEFORE,
)
from rnncheck.watching.forms.storages import DONE
from rnncheck.watching.forms.structures import Path

_BEFORE = ("prev", "last", "before", "past", "old")
_NEXT = ("next", "new", "after", "follow", "prime", "succ", "obs2")
REWARD: Key = ("next", "reward")
END_FLAGS: tuple[Key, ...] = (DONE, ("next", ENDS[0]), ("next", ENDS[1]))
FLAGS: tuple[Key, ...] = (*END_FLAGS, (FLAG,))


def entry_of(
    path: Path,
    mine: Tensor,
    batch: TensorDictBase,
    keys: Iterable[Key],
    before: Mapping[Key, Scale | None],
) -> tuple[Key, Scale | None] | None:
    """Which of the entries ``keys`` of a step it is: of several the one that its name tells. What
    who acts is shown of the step ``before`` is turned into what it gets by a scale."""
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
        for scale in {*_scales(key, flat[data], theirs[data]), before.get(key)}:
            wanted = theirs.double() if scale is None else theirs.double() * scale[0] + scale[1]
            alike = torch.isclose(flat.double(), wanted, 1e-5, 1e-6).all(-1)
            sure = data & ~_inner_starts(batch) if key in before else data
            share = float(alike[sure if bool(sure.any()) else data].double().mean())
            if theirs.dtype == torch.bool and share < 1 and not bool(flat[data].diff(dim=0).any()):
                continue  # of flags, one that never changes is only what is the same
            if share >= MOSTLY and (key != MASK_OF_ROWS or bool(alike.all())):
                found.append((share, is_named_so(path, key), key, scale))
    if not found:
        return None
    ends = names_an_end(path)
    flags = {key for _, _, key, _ in found if ends and key in FLAGS}
    still = not bool(flat[data].diff(dim=0).any())  # as flags are that are never set
    if still and not any(one[1] for one in found) and _is_no_flag(path):
        return None
    _, _, key, scale = max(found, key=lambda one: _rank(one, one[2] in flags, still=still))
    return key, scale


def _is_no_flag(path: Path) -> bool:
    """Whether it goes by the name of actions or of rewards, which a step may all have alike."""
    return is_named_so(path, (ACTION,)) or is_named_so(path, REWARD)


def _inner_starts(batch: TensorDictBase) -> Tensor:
    """First steps inside of a row: one of them may be what an episode ended with, which nothing
    acted on, and what is shown of the step before there is that of the last one."""
    starts: Tensor = batch.get((FLAG,))[..., 0].clone()
    starts[:, 0] = False
    return starts


def _rank(
    one: tuple[float, bool, Key, Scale | None], flag: bool, *, still: bool
) -> tuple[bool, bool, bool, float, bool, bool, bool]:
    """Its name counts most beside the same bits, for flags that are seldom true are all alike; else
    how many are the same. Of what is always the same the name counts more than that."""
    share, named, _, scale = one
    same = share == 1
    return still and named, same, same and named, share, named, flag, scale is None


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
    before = name[:1] == "p" or any(word in name for word in _BEFORE)
    if key in OF_STEP_BEFORE:
        return before
    if before and key in OF_STEP_BEFORE.values():
        return False
    begins = key == (FLAG,) and names_a_start(path)
    return begins or own in name or name.strip("_bs") in own or own[:4] in name


def shows_the_next(path: Path) -> bool:
    """Tells what is meant for the next observation from a copy of the one that a step had."""
    name = path[-1].lower()
    return name[:1] == "n" or any(word in name for word in _NEXT)
