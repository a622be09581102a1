"""What a sampled batch holds of what an env shows beside what who acts gets of it, as the state of
all agents that a mixer is given."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.held_as import Scale
from rnncheck.watching.forms.laid_rows import LaidRows
from rnncheck.watching.forms.plain_calls import MASK_OF_ROWS, MOSTLY, OBSERVATION
from rnncheck.watching.forms.sampled_entries import entry_of
from rnncheck.watching.forms.shown_entries import shown_keys
from rnncheck.watching.forms.structures import Path


def shown_beside(batch: TensorDictBase) -> list[Key]:
    """The entries of it that the env shows beside the observation."""
    return [key for key in shown_keys(batch) if key != (OBSERVATION,)]


def shown_and_behind(
    path: Path, value: Tensor, ahead: Tensor, laid: LaidRows, batch: TensorDictBase
) -> tuple[Key, Scale | None] | None:
    """Which of them ``value`` holds at all steps, ``ahead`` ``[rows, steps, ...]``, and once more
    behind the last step of each row, as that step showed it."""
    entry = entry_of(path, ahead, batch, shown_beside(batch), {})
    if entry is None or entry[1] is not None:
        return None
    key, whole = entry[0], value if laid.time == 1 else value.transpose(0, 1)
    mask = batch.get(MASK_OF_ROWS, None)
    rows, steps = batch.shape
    after = batch.get(("next", *key)).reshape(rows, steps, -1).to(value.dtype)
    whole = whole.reshape(rows, steps + 1, -1)
    last = whole.new_full((rows,), steps).long() if mask is None else mask.reshape(rows, -1).sum(1)
    at = range(rows)
    same = (whole[at, last] == after[at, last - 1]).all(-1)[last > 0]
    if float(same.double().mean()) < MOSTLY:
        return None
    like = batch.get(key)
    batch.set(key, ahead.reshape(like.shape).to(like.dtype, copy=True))
    return entry
