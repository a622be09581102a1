"""What a collector wrote into the replay buffer itself: read back in the order of time, cut where
it is interrupted.

Workers take turns in writing, so that a trajectory's stretches may lie apart. Each becomes a batch
of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.errors import StageError
from rnncheck.pipeline.assembly.steps import tag
from rnncheck.pipeline.guard.calling import running
from rnncheck.pipeline.keys import STEP_KEY
from rnncheck.pipeline.recording.buffer_order import begin

_TRAJECTORY, _DONE = ("collector", "traj_ids"), ("next", "done")
NEW_ENTRY = "not found in TensorDict"
WITHOUT_OUTPUTS = (
    "; the buffer took its entries from random steps (init_random_frames), which hold nothing that"
    " only the policy writes: leave `replay_buffer` out and extend it with the collector's batches,"
    " or let a `postproc` drop them"
)


@dataclass(frozen=True)
class Contents:
    """The stored steps, oldest first; the first ``random`` batches were taken by a random
    policy."""

    batches: list[TensorDictBase]
    random: int


def contents(
    buffer: Any, random_frames: int = 0, *, by_step: bool = False, by_turns: bool = False
) -> Contents:
    """All that the buffer holds, before any transform; the steps in the storage get their numbers.

    ``by_step``: an item is one step of all envs, not a row of one of them. ``by_turns``: several
    workers wrote.
    """
    with running("collect"):
        held = buffer.storage[:]
        data = torch.stack(held) if isinstance(held, list) else held
        order = torch.arange(len(data)).roll(-begin(buffer))
        axes = _axes(buffer, data.ndim, by_step)
        plain: TensorDictBase = data[order].permute(axes).contiguous().detach()
        first = _still_random(buffer, plain, random_frames)
        pieces = list(_pieces(plain, first, by_turns))
        with suppress(Exception):  # a storage that takes no new entry: the steps stay unnumbered
            back = [axes.index(axis) for axis in range(data.ndim)]
            _write_numbers(buffer, order, _numbers(pieces).permute(*back, data.ndim))
        ends = itertools.accumulate(piece.shape[-1] for piece in pieces)
        return Contents(pieces, sum(end <= first for end in ends))


def _axes(buffer: Any, rank: int, by_step: bool) -> list[int]:
    """The order of the storage's dimensions in which time comes last."""
    axes = list(range(rank))
    if by_step:
        return [*axes[1:], 0]
    rows = int(getattr(buffer, "dim_extend", 0))  # storages of several dimensions grow along time
    axes[0], axes[rows] = axes[rows], axes[0]
    return axes


def _still_random(buffer: Any, plain: TensorDictBase, frames: int) -> int:
    """How many of the oldest columns are random steps that no later ones have replaced."""
    replaced = max(0, int(getattr(buffer, "write_count", 0)) - plain.numel())
    rows = int(plain.shape[:-1].numel())
    left: int = min(plain.shape[-1], max(0, frames - replaced) // rows)
    return left


def _pieces(plain: TensorDictBase, first: int, by_turns: bool) -> Iterator[TensorDictBase]:
    """``plain`` cut behind its ``first`` columns and wherever a trajectory breaks off without
    having ended.

    Of several workers' each trajectory is cut out: behind its end another worker's may go on.
    """
    cuts = {0, first, plain.shape[-1]}
    ids, done = plain.get(_TRAJECTORY, None), plain.get(_DONE, None)
    if ids is not None and done is not None and ids.numel() == done.numel() == plain.numel():
        ids, done = ids.reshape(-1, plain.shape[-1]), done.reshape(-1, plain.shape[-1])
        broken = (ids[:, 1:] != ids[:, :-1]) & (~done[:, :-1] | by_turns)
        cuts |= {step + 1 for step in broken.any(0).nonzero().flatten().tolist()}
    for left, right in itertools.pairwise(sorted(cuts)):
        yield plain[..., left:right]


def _numbers(pieces: list[TensorDictBase]) -> Tensor:
    offsets = itertools.accumulate((piece.numel() for piece in pieces), initial=0)
    tagged = [tag(piece.clone(), offset) for piece, offset in zip(pieces, offsets, strict=False)]
    return torch.cat([piece.get(STEP_KEY) for piece in tagged], -2)


def _write_numbers(buffer: Any, order: Tensor, numbers: Tensor) -> None:
    inner = buffer.storage._storage
    if isinstance(inner, list):
        for index, number in zip(order.tolist(), numbers, strict=True):
            inner[index].set(STEP_KEY, number)
        return
    room = numbers.new_full((*inner.shape, 1), -1)
    filled = room[tuple(slice(size) for size in numbers.shape)]  # a view
    filled[order] = numbers
    with inner.unlock_():
        inner.set(STEP_KEY, room)


@contextmanager
def writing(random_frames: int) -> Iterator[None]:
    """A storage that is first given random steps has no room for what the policy writes beside the
    action."""
    try:
        yield
    except StageError as error:
        if not random_frames or NEW_ENTRY not in error.message:
            raise
        told = error.message.partition(" with keys")[0] + WITHOUT_OUTPUTS
        raise StageError(error.stage, told, place=error.place, frames=error.frames) from error
