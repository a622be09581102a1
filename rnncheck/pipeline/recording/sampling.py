"""Training batches as the user's replay buffer gives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensordict import TensorDictBase
from torchrl.data import ReplayBuffer

from rnncheck.errors import StageError
from rnncheck.pipeline.guard.calling import running
from rnncheck.spec.model import ReplaySpec

SAMPLES = 3  # batches drawn for the checks. Chosen: what one draw misses; each costs a loss call


def draw_samples(section: ReplaySpec, buffer: Any, count: int = SAMPLES) -> list[TensorDictBase]:
    """``count`` samples, each a copy of its own."""
    own = getattr(buffer, "batch_size", None) or section.batch_size is None
    size = () if own else (section.batch_size,)
    samples = []
    for _ in range(count):
        with running("replay"), drawing_in_turn(buffer):
            sample = buffer.sample(*size)
        samples.append(_as_data(sample))
    return samples


@contextmanager
def drawing_in_turn(buffer: Any) -> Iterator[None]:
    """Threads that draw ahead race for the process's random numbers, with another outcome in every
    run: nothing is drawn ahead."""
    ahead = isinstance(buffer, ReplayBuffer) and getattr(buffer, "_prefetch", False)
    if ahead:
        buffer._prefetch = False
    try:
        yield
    finally:
        if ahead:
            buffer._prefetch = ahead


def _as_data(sample: Any) -> TensorDictBase:
    data = sample[0] if isinstance(sample, tuple) and sample else sample
    if isinstance(data, TensorDictBase):
        return data.clone()
    kind = "None" if data is None else f"an object of type {type(data).__name__}"
    raise StageError("replay", f"the replay buffer gave {kind} instead of a tensordict")
