"""More data where what was collected is too little: for a sampler, or to see the policy act."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from tensordict import TensorDictBase

from rnncheck.errors import StageError
from rnncheck.pipeline.guard.calling import running

# Times the batches that the spec asks for, which is where collecting ends. Chosen: episodes are
# seldom longer than eight such batches, and a sampler that never draws costs eight times the wait.
MOST_ROUNDS = 8
# Of the time that a stage may take, for going on behind a random warm-up. Chosen: a quarter leaves
# the rest of it to a collector that is slow by itself.
WARM_UP_SHARE = 0.25
_SCARCE = re.compile(
    r"sufficient length|empty storage|No logical trajectory|larger (sample )?than (the )?population"
    r"|not enough (data|steps|trajector|episodes|samples)",
    re.IGNORECASE,
)

TakeBatch = Callable[[], TensorDictBase | None]


def is_scarcity(error: StageError) -> bool:
    """Whether a sampler refused because the buffer holds too little for it."""
    return error.stage == "replay" and bool(_SCARCE.search(error.message))


def more_batches_notice(first: int, batches: int) -> str:
    """The notice of a run that collected more than the spec asks for."""
    return (
        f"{batches - first} more batches were collected: "
        f"the sampler could draw nothing from the first {first}"
    )


def warm_up_notice(first: int, batches: int, random: int) -> str:
    """The notice of a run that went on behind a random warm-up, or could not."""
    if batches > random:
        return (
            f"{batches - first} more batches were collected: the first {random} are the random"
            " policy's (init_random_frames), and show nothing of the policy"
        )
    return (
        f"all {batches} batches that were collected are the random policy's: lower"
        " init_random_frames for the check"
    )


class MoreBatches:
    """The collector's batches one after the other; taken up again where more of them are wanted."""

    def __init__(
        self,
        batches: Iterator[TensorDictBase],
        limit: int,
        change: Callable[[TensorDictBase], TensorDictBase],
    ) -> None:
        self._batches, self._left, self._change = batches, limit, change

    def __call__(self) -> TensorDictBase | None:
        """One more batch, or None where the collector ends, fails or the limit is reached."""
        if self._left <= 0:
            return None
        self._left -= 1
        with suppress(StageError), running("collect"):  # what was collected before is judged
            batch = next(self._batches, None)
            if isinstance(batch, TensorDictBase):
                return self._change(batch.detach().clone())
        return None


def no_more() -> None:
    """There is no collector that could go on."""
