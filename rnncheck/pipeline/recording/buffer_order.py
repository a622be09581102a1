"""What a TorchRL buffer holds: where its ring begins, how its sampler parts trajectories."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from torch import Tensor
from torchrl.data.replay_buffers import RoundRobinWriter, SliceSampler

from rnncheck.pipeline.keys import STEP_KEY, Key, as_key


def begin(buffer: Any) -> int:
    """Where the items of a full buffer that has begun anew start: at its write cursor."""
    full = bool(getattr(buffer.storage, "_is_full", False))
    return int(getattr(buffer.writer, "_cursor", 0)) if full else 0


def seam(buffer: Any) -> list[tuple[int, int]]:
    """Numbers of the newest and the oldest step, side by side in a full ring: one pair for each of
    its rows."""
    with suppress(Exception):  # a buffer of the user's own, or one that holds something else
        if buffer.storage._is_full and isinstance(buffer.writer, RoundRobinWriter):
            first = begin(buffer)
            left, right = (_numbers(buffer, at) for at in (first - 1, first))
            return list(zip(left, right, strict=True))
    return []


def _numbers(buffer: Any, at: int) -> list[int]:
    found: Tensor = buffer.storage[at].get(STEP_KEY)
    return [int(number) - 1 for number in found.flatten()]


def parting_keys(buffer: Any) -> tuple[Key | None, tuple[Key, ...]] | None:
    """The keys by which a slice sampler parts trajectories, as it settled on them: numbers, or
    ends; else None."""
    sampler = getattr(buffer, "sampler", None)
    if not isinstance(sampler, SliceSampler):
        return None
    if getattr(sampler, "_fetch_traj", False) and sampler.traj_key is not None:
        return as_key(sampler.traj_key), ()
    ends = getattr(sampler, "end_keys", None) or (sampler.end_key,)
    return None, tuple(as_key(key) for key in ends if key is not None)
