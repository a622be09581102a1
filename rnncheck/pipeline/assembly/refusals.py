"""What TorchRL's buffers refuse, in a sentence with the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch import nn
from torchrl.envs.transforms import BurnInTransform

from rnncheck.errors import StageError
from rnncheck.printable import counted

FLAT = (
    "a BurnInTransform needs samples [rows, steps], and the buffer hands out flat ones: store whole"
    " rows (`flatten: none`, one row per item), or burn in behind a reshape in a `batch` factory"
)
ROWS = (
    "the collector gives rows, one per env or trajectory: let the storage have them (ndim: 2), or"
    " flatten them"
)
READ_ONLY = (
    "the buffer's writer, ImmutableDatasetWriter, takes no collected data: leave `writer` out"
)

Said = Callable[[re.Match[str], Any, int], str]


def _too_short(found: re.Match[str], _buffer: Any, batches: int) -> str:
    longest, needed = found.groups()
    return (
        f"no trajectory in the buffer is as long as a slice: the longest of {batches} batches has"
        f" {longest} steps, a slice {needed}; set `strict_length: false`, a shorter slice_len (or"
        " more num_slices), or collect more (`collect.batches`, `frames_per_batch`)"
    )


def _no_trajectories(_found: re.Match[str], buffer: Any, _batches: int) -> str:
    kind = type(buffer.storage).__name__
    return (
        f"a slice sampler cannot read trajectories out of a {kind}: use LazyTensorStorage or"
        " LazyMemmapStorage, or store whole rows (`flatten: none`) and draw them with"
        " RandomSampler"
    )


def _burned_up(found: re.Match[str], buffer: Any, _batches: int) -> str:
    steps = max((int(one.burn_in) for one in burn_ins(buffer)), default=0)
    return (
        f"a BurnInTransform of {counted(steps, 'step')} leaves nothing of the samples:"
        " draw longer ones"
        if steps
        else found.string
    )


def _flat(found: re.Match[str], buffer: Any, _batches: int) -> str:
    return FLAT if burn_ins(buffer) else found.string


SENTENCES: tuple[tuple[re.Pattern[str], Said], ...] = (
    (re.compile(r"length range: \d+ - (\d+) / required=(\d+)"), _too_short),
    (re.compile("Could not get a tensordict out of the storage"), _no_trajectories),
    (re.compile("not enough values to unpack"), _flat),
    (re.compile("index 0 is out of bounds for dimension"), _burned_up),
    (re.compile("doesn't allow writing"), lambda *_: READ_ONLY),
    (
        re.compile("end-of-trajectory signal to be 1-dimensional"),
        lambda found, *_: f"{found.string}; {ROWS}",
    ),
)


def explained(error: StageError, buffer: Any, batches: int = 0) -> StageError:
    """The refusal with its way out, where it is known; ``batches`` were collected before it was
    given up."""
    for pattern, said in SENTENCES:
        found = pattern.search(error.message)
        if found is not None:
            message = said(found, buffer, batches)
            return StageError(error.stage, message, place=error.place, frames=error.frames)
    return error


def burn_ins(buffer: Any) -> list[BurnInTransform]:
    """The BurnInTransforms of a TorchRL buffer."""
    transform = getattr(buffer, "_transform", None)
    parts = _inside(transform) if isinstance(transform, nn.Module) else []
    return [part for part in parts if isinstance(part, BurnInTransform)]


def _inside(module: nn.Module) -> list[nn.Module]:
    # a BurnInTransform has an attribute `modules` in the place of nn.Module's method
    return [one for part in module.children() for one in (part, *_inside(part))]
