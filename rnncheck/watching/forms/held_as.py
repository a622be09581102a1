"""In what a script holds something of every step: a tensor, an array, or a list of such or of plain
numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

TENSORS, ARRAYS, NUMBERS = "tensors", "arrays", "numbers"


def gathered(value: Any) -> tuple[Tensor | None, str]:
    """Arrays, and lists of one thing for each step, as a tensor ``[steps, ...]``, and what they are
    made of; None for anything else."""
    if isinstance(value, np.ndarray):
        return _tensor(value), ARRAYS
    if not isinstance(value, list) or not value:
        return None, TENSORS
    if all(isinstance(one, Tensor) and one.shape == value[0].shape for one in value):
        return torch.stack(value), TENSORS
    if all(isinstance(one, (bool, int, float)) for one in value):
        return torch.tensor(value), NUMBERS
    if all(isinstance(one, (np.ndarray, np.generic)) for one in value):
        same = len({np.shape(one) for one in value}) == 1
        return (_tensor(np.stack(value)) if same else None), ARRAYS
    return None, TENSORS


def handed(whole: Tensor, of_what: str, *, listed: bool) -> Any:
    """A tensor ``[steps, ...]`` as the script holds it."""
    if of_what == NUMBERS:
        return whole.tolist()
    if of_what == ARRAYS:
        arrays = whole.detach().cpu().numpy()
        return list(arrays) if listed else arrays
    return list(whole.unbind(0)) if listed else whole


def lists_in(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Arrays and lists of numbers or arrays in arguments, with the way there."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from lists_in(inner, (*path, str(name)))
    elif gathered(value)[0] is not None and gathered(value)[1] != TENSORS:
        yield path, value


def _tensor(value: np.ndarray[Any, Any]) -> Tensor | None:
    try:
        return torch.as_tensor(value)
    except TypeError:  # of what is no number
        return None
