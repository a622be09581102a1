"""Where the steps of a call on a training batch were collected, if many of them show the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import tensor_items
from rnncheck.watching.forms.along_rows import Beside, along_rows
from rnncheck.watching.forms.fewer_bits import in_bits_of
from rnncheck.watching.forms.plain_calls import MOSTLY, OBSERVATION, ToldCall
from rnncheck.watching.forms.structures import Path

_FEWEST = 2  # steps of a row


def along_the_rows(
    tensors: Mapping[Path, Tensor], told: ToldCall, acted: TensorDictBase, *, all_there: bool
) -> tuple[Path | None, Tensor | None]:
    """The argument that holds observations of ``acted`` ``[rows, steps]`` in rows, by what they
    show one after the other, and where each was acted on, ``[rows * steps, 2]`` in its order. Zeros
    may follow rows whose steps are ``all_there``; out of a memory, later steps may be others."""
    seen = acted.get(OBSERVATION).detach().cpu()
    width = seen[0, 0].numel()
    best: tuple[float, Path | None, Tensor | None] = (MOSTLY, None, None)
    for path, value in tensors.items():
        if value.numel() % width or value.numel() <= width:
            continue
        count = value.numel() // width
        for rows, time_first in _orders(leading(value, seen.shape[2:]), count, tensors, told):
            laid = _laid(value, rows, count // rows, time_first=time_first)
            beside = _beside(tensors, told, acted, rows, count // rows, time_first=time_first)
            known = in_bits_of(value, seen)
            shown = laid.reshape(rows, count // rows, width).to(known.dtype)
            found = along_rows(shown, known, beside)
            there = found[..., 0] >= 0
            share = _share(shown, there) if all_there else float(there.double().mean())
            if share > best[0] or (share == MOSTLY and best[1] is None):
                order = found.transpose(0, 1) if time_first else found
                best = share, path, order.reshape(-1, 2)
    return best[1], best[2]


def _share(shown: Tensor, told: Tensor) -> float:
    """How many of the steps that a row shows were ``told``: zeros may be behind its end."""
    behind = ((shown != 0).any(-1) | told).flip(1).cumsum(1).flip(1) == 0
    return float(told[~behind].double().mean()) if bool(told.any()) else 0.0


def leading(value: Tensor, shape: torch.Size) -> tuple[int, ...]:
    """The dimensions ahead of what one step holds, which is of ``shape`` or flat."""
    own = len(shape) if value.shape[value.ndim - len(shape) :] == shape else 1
    return tuple(value.shape[: value.ndim - own])


def _orders(
    lead: tuple[int, ...], count: int, tensors: Mapping[Path, Tensor], told: ToldCall
) -> Iterator[tuple[int, bool]]:
    """How many rows there may be, and whether time comes first."""
    sizes = list(lead[:2]) if len(lead) >= _FEWEST else _rows_of_states(tensors, told)
    for at, rows in enumerate(sizes):
        if count % rows == 0 and count // rows >= _FEWEST:
            yield from [(rows, at == 1)] if len(lead) >= _FEWEST else [(rows, True), (rows, False)]


def _rows_of_states(tensors: Mapping[Path, Tensor], told: ToldCall) -> list[int]:
    """Of arguments that have the form of a state."""
    return list(
        dict.fromkeys(
            value.shape[slot.axis]
            for value in tensors.values()
            for slot in told.carry.values()
            if slot.axis is not None
            and value.ndim == len(slot.rest) + 1
            and (*value.shape[: slot.axis], *value.shape[slot.axis + 1 :]) == slot.rest
        )
    )


def _laid(value: Tensor, rows: int, steps: int, *, time_first: bool) -> Tensor:
    """``[rows, steps, ...]``."""
    if time_first:
        return value.reshape(steps, rows, -1).transpose(0, 1)
    return value.reshape(rows, steps, -1)


def _beside(
    tensors: Mapping[Path, Tensor],
    told: ToldCall,
    acted: TensorDictBase,
    rows: int,
    steps: int,
    *,
    time_first: bool,
) -> list[Beside]:
    """What the call is given of each step, and of the first one, and what was collected."""
    entries = [
        one.detach().cpu()
        for key, one in tensor_items(acted)
        if key[0] != "next" or one.numel() == acted.numel()  # flags of ends, rewards
    ]
    entries = [one if one.is_floating_point() else one.double() for one in entries]
    found = list[Beside]()
    for value in tensors.values():
        for slot in told.carry.values():
            if slot.axis is not None and value.ndim == len(slot.rest) + 1:
                first = slot.found(value.detach())
                if len(first) == rows and first[0].numel() == acted.get(slot.key)[0, 0].numel():
                    found.append((first.unsqueeze(1), [acted.get(slot.key)]))
        if value.ndim and value.numel() % (rows * steps) == 0:
            whole = _laid(value.detach(), rows, steps, time_first=time_first)
            found.append((whole, [one.to(whole.dtype) for one in entries]))
    return found
