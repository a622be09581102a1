"""Which steps of a batch are padding: read off the mask beside them, whatever its key is."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_items

MASK: Key = ("collector", "mask")  # TorchRL's own


def padding_mask(td: TensorDictBase) -> tuple[Key, Tensor] | None:
    """The key of the mask and the mask ``[*batch]``, true where a step is data; None without one.

    TorchRL's own mask is believed. Any other is known by its structure: bool, one entry a step,
    true up to some step of each row and false behind it, nothing that a step hands on, and the
    steps behind it hold zeros.
    """
    entries = dict(tensor_items(td))
    shape = td.batch_size
    own = fitted(entries.get(MASK), shape)
    if own is not None:
        return MASK, own
    for key, value in entries.items():
        if key[0] == "next" or ("next", *key) in entries:
            continue
        mask = fitted(value, shape)
        if mask is not None and _ends_rows(mask) and _is_empty(~mask, entries):
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

    Everything that is no flag, where the batch does not keep what was handed on.
    """
    numbers = {key: one for key, one in entries.items() if one.dtype is not torch.bool}
    root = {k: one for k, one in numbers.items() if k[0] not in ("next", "collector", "rnncheck")}
    handed = {key: one for key, one in root.items() if ("next", *key) in entries}
    judged = [one for one in (handed or root).values() if one.ndim >= padded.ndim]
    wrong = any(bool((one[padded] != 0).any()) for one in judged)
    return not wrong and any(bool((one[~padded] != 0).any()) for one in judged)
