"""In what a script holds something of every step: a tensor, an array, or a list of such or of plain
numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rnncheck.pipeline.placing import on_cpu
from rnncheck.watching.forms.structures import Path, records

Scale = tuple[float, float]
SCALE_CLOSE = 1e-5  # relative: a reward that was scaled in float32
MANY = 8  # steps: fewer tensors may be the states of a cell. Chosen, not measured
TENSORS, ARRAYS, NUMBERS = "tensors", "arrays", "numbers"


def is_shifted_mask(values: Tensor, scale: Scale | None) -> bool:
    """Whether zeros and ones are to be more than a multiple of a reward: beside rewards of 1 a flag
    is 1 - reward."""
    return scale is not None and scale[1] != 0 and bool(((values == 0) | (values == 1)).all())


def gathered(value: Any) -> tuple[Tensor | None, str]:
    """Arrays, and lists of one thing for each step, as a tensor ``[steps, ...]``, and what they are
    made of; None for anything else."""
    if isinstance(value, np.ndarray):
        return _tensor(value), ARRAYS
    if not isinstance(value, (list, tuple, deque)) or not value:
        return None, TENSORS
    if all(isinstance(one, Tensor) and one.shape == value[0].shape for one in value):
        return on_cpu(torch.stack(tuple(value))), TENSORS
    if all(isinstance(one, (bool, int, float)) for one in value):
        return torch.tensor(list(value)), NUMBERS
    if all(isinstance(one, (np.ndarray, np.generic)) for one in value):
        same = len({np.shape(one) for one in value}) == 1
        return (_tensor(np.stack(list(value))) if same else None), ARRAYS
    return _of_several(value)


def _of_several(value: Any) -> tuple[Tensor | None, str]:
    """The same of a list that has, at every step, a list of one thing for each of several envs."""
    kinds = all(isinstance(one, (list, tuple)) and one for one in value)
    if not kinds or len({len(one) for one in value}) > 1:
        return None, TENSORS
    inner = [gathered(one) for one in value]
    wholes = [one for one, of_what in inner if one is not None and of_what == inner[0][1]]
    same = len(wholes) == len(inner) and len({one.shape for one in wholes}) == 1
    known = same and inner[0][1] != TENSORS  # as tensors they may be the states of a cell
    return (torch.stack(wholes), inner[0][1]) if known else (None, TENSORS)


def handed(whole: Tensor, of_what: str, *, listed: bool) -> Any:
    """A tensor ``[steps, ...]`` as the script holds it."""
    if of_what == NUMBERS:
        return whole.tolist()
    if of_what == ARRAYS:
        arrays = whole.detach().cpu().numpy()
        return list(arrays) if listed else arrays
    return list(whole.unbind(0)) if listed else whole


def lists_in(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Arrays, and lists of numbers, arrays or many tensors, in arguments, with the way there."""
    whole, of_what = gathered(value)
    if whole is not None and (of_what != TENSORS or len(whole) >= MANY):
        yield path, value
        return
    for name, inner in records(value).items():
        if not isinstance(inner, Tensor):
            yield from lists_in(inner, (*path, name))


def _tensor(value: np.ndarray[Any, Any]) -> Tensor | None:
    try:
        return torch.as_tensor(value)
    except TypeError:  # of what is no number
        return None


def scale_of(mine: Tensor, theirs: Tensor) -> Scale | None:
    """The a and b with which ``mine`` is a x + b of ``theirs``; of rewards that are always alike
    the factor, of flags that never are set their opposite."""
    held, given = mine.double().flatten(), theirs.double().flatten()
    low, high = int(given.argmin()), int(given.argmax())
    if given[low] != given[high]:
        factor = float((held[high] - held[low]) / (given[high] - given[low]))
        scale = (factor, float(held[low] - factor * given[low]))
    elif theirs.dtype == torch.bool:
        scale = (-1.0, 1.0)
    elif given[low] != 0:
        scale = (float(held[low] / given[low]), 0.0)
    else:
        return None
    fits = torch.allclose(given * scale[0] + scale[1], held, rtol=SCALE_CLOSE, atol=0.0)
    return scale if fits and scale[0] != 0 else None
