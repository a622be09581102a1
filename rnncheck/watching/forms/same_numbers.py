"""Whether entries were made again."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tensordict import TensorDictBase

from rnncheck.pipeline.keys import Key

_CLOSE = 1e-4  # relative and absolute: the same lines on the same numbers


def same_numbers(again: TensorDictBase, made: TensorDictBase, keys: Iterable[Key]) -> bool:
    """Whether the entries of one batch are those of another, NaN for NaN."""
    pairs = [(again.get(key, None), made.get(key, None)) for key in keys]
    return all(
        one is not None
        and other is not None
        and one.shape == other.shape
        and torch.allclose(one, other, _CLOSE, _CLOSE, equal_nan=True)
        for one, other in pairs
    )
