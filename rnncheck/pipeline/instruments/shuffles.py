"""Shuffles that leave what they are given in its order: which minibatch a row comes into is not
what is judged, and a batch whose order is drawn anew cannot be laid beside itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch


@contextmanager
def nothing_shuffled() -> Iterator[None]:
    """While the context is open torch's, NumPy's and Python's global shuffles keep the order."""
    with ExitStack() as scope:
        for owner, name, instead in (
            (torch, "randperm", _in_turn),
            (np.random, "permutation", _as_given),
            (np.random, "shuffle", _left_alone),
            (random, "shuffle", _left_alone),
        ):
            scope.enter_context(patch.object(owner, name, instead))
        yield


def _in_turn(n: int, *_: Any, generator: Any = None, out: Any = None, **kwargs: Any) -> Any:
    """As ``torch.randperm``."""
    found = torch.arange(n, **kwargs)
    return found if out is None else out.copy_(found)


def _as_given(x: Any) -> Any:
    """As ``numpy.random.permutation``."""
    return np.arange(x) if isinstance(x, (int, np.integer)) else np.array(x)


def _left_alone(_x: Any, *_: Any) -> None:
    """As ``random.shuffle``."""
