"""Replay buffers, and what a collector wrote into one by itself, before the first update."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from torchrl.data import ReplayBuffer

from rnncheck.pipeline.assembly.stored import contents
from rnncheck.pipeline.compat import runs_workers
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.keys import STEP_KEY
from rnncheck.watching.seams.patching import kinds_of
from rnncheck.watching.seen import Acting


def buffers() -> list[type]:
    """TorchRL's replay buffers and those made of them, as far as they are imported, the base
    first."""
    return kinds_of(ReplayBuffer)


def read_back(acting: Acting) -> None:
    """The steps that are in the buffer, as batches; nothing where it cannot be read."""
    collector: Any = acting.collector
    buffer = getattr(collector, "replay_buffer", None)
    if acting.batches or buffer is None:
        return
    with suppress(Exception):  # a buffer or a storage of the user's own may do anything
        held = contents(
            copy_of(buffer, "the replay buffer"),
            int(getattr(collector, "init_random_frames", 0) or 0),
            by_step=getattr(collector, "extend_buffer", True) is False,
            by_turns=runs_workers(collector),
        )
        acting.batches.extend(one.exclude(STEP_KEY) for one in held.batches)
        acting.random = held.random
