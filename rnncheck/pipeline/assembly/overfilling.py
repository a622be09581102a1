"""Fills a second buffer of the user's own over its capacity, with what was collected, again and
again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tensordict import TensorDictBase

from rnncheck.pipeline.keys import STEP_KEY
from rnncheck.pipeline.recording.overfilled import Overfilled, size_of

Extend = Callable[[TensorDictBase], None]
Draw = Callable[[], TensorDictBase]

# What is spent on reaching the capacity; a larger buffer is judged as a run leaves it. Chosen: a
# few times what the rest of the replay stage takes.
MOST_SECONDS = 3.0
MOST_BYTES = 256 * 2**20
STATES = 3  # places of the write cursor at which samples are drawn
DRAWN_STEPS = 512  # at each of them


@dataclass
class Ring:
    """One buffer that is written over, and the numbers of the steps in the order of writing.

    An item is a step, or a column of the rows ``[N, T]`` that are written side by side.
    """

    buffer: Any
    extend: Extend
    written: list[tuple[int, ...]] = field(default_factory=list)  # item by item
    columns: bool = False
    full: bool = False

    def write(self, batch: TensorDictBase) -> None:
        """Extend the buffer, and note whether it grew by less than it was given."""
        before = size_of(self.buffer)
        self.extend(batch)
        after = size_of(self.buffer)
        if before is None or after is None:
            raise TypeError("the buffer has no length")
        numbers = batch.get(STEP_KEY).squeeze(-1) - 1
        if not self.written:
            self.columns = numbers.ndim > 1 and after - before == numbers.shape[-1]
        side_by_side = numbers.flatten(0, -2).T if self.columns else numbers.reshape(-1, 1)
        self.full = after - before < len(side_by_side)
        self.written += map(tuple, side_by_side.tolist())

    def seams(self) -> list[tuple[int, int]]:
        """The newest and the oldest step that it holds, in each row; none where no sample could
        tell them from neighbours in time."""
        held = size_of(self.buffer) or 0
        if not 0 < held < len(self.written) or self.written[-held] == self.written[0]:
            return []
        pairs = zip(self.written[-1], self.written[-held], strict=True)
        return [(newest, oldest) for newest, oldest in pairs if oldest != newest + 1]


def is_too_large(buffer: Any, batches: list[TensorDictBase]) -> bool:
    """Whether a TorchRL storage has room for more than may be spent on a second one."""
    size = getattr(getattr(buffer, "storage", None), "max_size", None)
    per_step = sum(batch.bytes() for batch in batches) / sum(batch.numel() for batch in batches)
    return isinstance(size, int) and size * per_step > MOST_BYTES


def overfill(buffer: Any, extend: Extend, batches: list[TensorDictBase], draw: Draw) -> Overfilled:
    """Write until the buffer is full and a little on, and draw samples there."""
    found, ring = Overfilled(), Ring(buffer, extend)
    stop = time.perf_counter() + MOST_SECONDS
    room = MOST_BYTES // max(1, sum(batch.bytes() for batch in batches))
    pieces = _again_and_again(batches)
    for piece in itertools.islice(pieces, max(2, room) * len(batches)):
        ring.write(piece)
        if ring.full or time.perf_counter() > stop:
            break
    found.full = ring.full
    for _ in range(STATES if ring.full else 0):
        ring.write(next(pieces))
        seams = ring.seams()
        found.samples += [(td, seams) for td in _drawn(draw)] if seams else []
    return found


def _again_and_again(batches: list[TensorDictBase]) -> Iterator[TensorDictBase]:
    """The batches in turn; the last of each round loses its last few steps.

    Else the newest step would go on in the oldest, in a ring whose capacity is a multiple of a
    round.
    """
    for number in itertools.count():
        *whole, last = batches
        yield from whole
        left_out = min(3 + number % 4, last.shape[-1] - 1)
        yield last[..., : last.shape[-1] - left_out]


def _drawn(draw: Draw) -> Iterator[TensorDictBase]:
    steps = 0
    while steps < DRAWN_STEPS:
        sample = draw()
        steps += max(1, sample.numel())
        yield sample
