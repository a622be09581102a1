"""A buffer of the user's own that was filled over its capacity, and what it gave then.

Where such a ring begins shows in nothing but its order: the newest step stands beside the oldest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tensordict import TensorDictBase
from torchrl.data import ReplayBuffer


@dataclass
class Overfilled:
    """Samples, each with the numbers of the newest and the oldest step that the buffer held, one
    pair for each of its rows.

    ``full`` is false where its capacity was not reached, and nothing was drawn.
    """

    full: bool = False
    samples: list[tuple[TensorDictBase, list[tuple[int, int]]]] = field(default_factory=list)


def is_own(buffer: Any) -> bool:
    """A class of the user's own, or TorchRL's with a sampler of the user's own."""
    if not isinstance(buffer, ReplayBuffer):
        return True
    return not type(buffer.sampler).__module__.startswith("torchrl.")


def size_of(buffer: Any) -> int | None:
    """How many items it says that it holds."""
    try:
        return len(buffer)
    except TypeError:
        return None
