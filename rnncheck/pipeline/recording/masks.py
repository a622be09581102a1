"""Which steps of a batch are padding: read off the mask beside them, whatever its key is, or off
the steps themselves."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import STEP_KEY, Key, tensor_items
from rnncheck.pipeline.placing import place_of

MASK: Key = ("collector", "mask")  # TorchRL's own
_ENDS = ("done", "terminated", "truncated")  # what TorchRL's envs call their flags, in any nest


def padding_mask(td: TensorDictBase) -> tuple[Key, Tensor] | None:
    """The key of the mask and the mask ``[*batch]``, true where a step is data; None without one.

    TorchRL's own mask is believed. Any other is known by its structure: bool, one entry a step,
    true up to some step of each row and false behind it, the same in the step and in what it led to
    where that has one, and the steps behind it hold zeros, or go on behind an episode's end without
    a reset.
    """
    entries = dict(tensor_items(td))
    shape = td.batch_size
    own = fitted(entries.get(MASK), shape)
    if own is not None:
        return MASK, own
    for key, value in entries.items():
        mask = None if key[0] == "next" else fitted(value, shape)
        if mask is None or not _ends_rows(mask):
            continue
        after = entries.get(("next", *key))
        if after is not None and not torch.equal(after, value):
            continue
        if _is_empty(~mask, entries) or _is_played_on(~mask, entries):
            return key, mask
    return None


def fitted(value: object, shape: torch.Size) -> Tensor | None:
    """A bool with one entry a step as ``[*batch]``; None of anything else."""
    if not isinstance(value, Tensor) or value.dtype is not torch.bool:
        return None
    if value.shape not in (shape, (*shape, 1)):
        return None
    return value.reshape(shape)


def _ends_rows(mask: Tensor) -> bool:
    """Some steps are false, and in every row only those behind its data, of which there is some."""
    falls = bool((mask[..., 1:] <= mask[..., :-1]).all())
    return falls and bool(mask[..., 0].all()) and not bool(mask.all())


def _is_empty(padded: Tensor, entries: dict[Key, Tensor]) -> bool:
    """What a step hands on is zero at the padded steps and not elsewhere.

    Everything that is no flag, where the batch does not keep what was handed on. One float a step
    beside others may be a value, which a critic makes of zeros as well.
    """
    numbers = {key: one for key, one in entries.items() if one.dtype is not torch.bool}
    root = {k: one for k, one in numbers.items() if k[0] not in ("next", "collector", "rnncheck")}
    handed = {key: one for key, one in root.items() if ("next", *key) in entries}
    judged = [one for one in (handed or root).values() if one.ndim >= padded.ndim]
    values = [one for one in judged if one.is_floating_point() and one.numel() == padded.numel()]
    judged = [one for one in judged if not any(one is value for value in values)] or judged
    wrong = any(bool((one[padded] != 0).any()) for one in judged)
    return not wrong and any(bool((one[~padded] != 0).any()) for one in judged)


def _is_played_on(padded: Tensor, entries: dict[Key, Tensor]) -> bool:
    """The padded steps go on from the step that ended their row's episode, as where a loop steps
    all of its envs until the last one has ended; or hold zeros.

    Behind a reset no step holds what the one before handed on.
    """
    pairs = [
        (after, entries[key[1:]])
        for key, after in entries.items()
        if key[0] == "next" and key[1:] in entries and after.dtype is not torch.bool
    ]
    pairs = [(after, here) for after, here in pairs if after.shape == here.shape]
    flags = [
        fitted(v, padded.shape) for k, v in entries.items() if k[0] == "next" and k[-1] in _ENDS
    ]
    ends = [flag for flag in flags if flag is not None]
    if not pairs or not ends:
        return False
    rows = padded.reshape(-1, padded.shape[-1])
    ended = torch.stack(ends).any(0).reshape(rows.shape)
    wide = [(a.reshape(*rows.shape, -1), h.reshape(*rows.shape, -1)) for a, h in pairs]
    goes_on = torch.stack([(a[:, :-1] == h[:, 1:]).all(-1) for a, h in wide]).all(0)
    empty = torch.stack([(here[:, 1:] == 0).all(-1) for _, here in wide]).all(0)
    later, first = rows[:, 1:], rows[:, 1:] & ~rows[:, :-1]
    behind_ends = bool(ended[:, :-1][first].all())
    return behind_ends and bool((goes_on | empty)[later].all()) and bool(goes_on[later].any())


def halted(td: TensorDictBase) -> Tensor:
    """``[rows, steps]`` of ``td`` ``[rows, steps]``: copies of the step that ended the row.

    ``env.rollout(break_when_all_done=True)`` repeats the last step of an env that is done until the
    others are. Behind a trajectory of one step a copy might be the next trajectory: it is one where
    no longer one was repeated.
    """
    entries = {k: v for k, v in tensor_items(td) if k not in (MASK, STEP_KEY)}
    nowhere = torch.zeros(td.shape, dtype=torch.bool, device=place_of(td))
    flags = [fitted(v, td.shape) for k, v in entries.items() if k[0] == "next" and k[-1] in _ENDS]
    ended = nowhere.clone()
    for flag in flags:
        ended |= nowhere if flag is None else flag
    if not bool((ended[:, 1:] & ended[:, :-1]).any()):
        return nowhere
    repeated = ended.clone()
    repeated[:, 0] = False
    repeated[:, 1:] &= ended[:, :-1] & _repeats(list(entries.values()))
    last = repeated.flip(1).long().cumprod(1).flip(1).bool()  # up to the end of the row
    began = last & ~last.roll(1, 1)
    longer = began[:, 2:] & ~ended[:, :-2]  # two steps before its first copy nothing had ended
    return last if bool(longer.any()) else nowhere


def _repeats(entries: list[Tensor]) -> Tensor:
    """``[rows, steps - 1]``: a step holds what the one before it holds."""
    differ = [bits_differ(one[:, :-1], one[:, 1:]) for one in entries]
    return ~torch.stack([d.flatten(2).any(-1) if d.ndim > 2 else d for d in differ]).any(0)
