"""Rows that also show what an episode ended with, at which nobody acted: what is told of a step
then stands beside what it led to, in the row's next place."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.laid_rows import LaidRows
from rnncheck.watching.forms.sampled_entries import END_FLAGS, REWARD, is_named_so
from rnncheck.watching.forms.storages import DONE
from rnncheck.watching.forms.structures import Path


def at_arrival(path: Path, steps: Tensor, laid: LaidRows, batch: TensorDictBase) -> Key | None:
    """The entry of the step before that ``steps`` ``[rows, steps, ...]`` has, beside what that step
    led to; None where it has none, or where no row shows what an episode ended with.

    It has to be the same at every step that is known, and to tell of an end where nobody acted, or
    to be no reward of its own step.
    """
    acted = laid.found[..., 0] >= 0
    ended = acted & batch.get(DONE).reshape(acted.shape)
    shows_ends = ended[:, :-1] & ~acted[:, 1:] & ~laid.empty[:, 1:]
    if not bool(shows_ends.any()):
        return None
    found = [key for key in (*END_FLAGS, REWARD) if _is_late(key, steps, acted, batch)]
    return next(iter(sorted(found, key=lambda key: not is_named_so(path, key))), None)


def _is_late(key: Key, steps: Tensor, acted: Tensor, batch: TensorDictBase) -> bool:
    value = batch.get(key, None)
    if value is None or value.numel() != steps.numel():
        return False
    theirs, mine = (one.reshape(acted.shape).double() for one in (value, steps))
    before = acted[:, :-1]
    same = torch.isclose(mine[:, 1:], theirs[:, :-1], 1e-5, 1e-6)[before]
    own = torch.isclose(mine, theirs, 1e-5, 1e-6)[acted]
    tells = mine[:, 1:][before]
    return bool(same.all()) and not bool(own.all()) and bool(tells.any())


def put_late(batch: TensorDictBase, key: Key, steps: Tensor) -> tuple[float, ...]:
    """Give the batch what the rows tell late of its steps. Returns what stands ahead of them."""
    like = batch.get(key).clone()
    told = steps.reshape(like.shape).to(like.dtype)
    like[:, :-1] = told[:, 1:]
    batch.set(key, like)
    return tuple(steps[:, 0].double().flatten().tolist())
