"""Numbers that a script holds of each episode, such as the value of what its last step showed: they
stay what they are whatever the batch, so that a loss that reads them cannot be judged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from rnncheck.watching.forms.structures import Path, walked

_SEQUENCES = (list, deque, Tensor, np.ndarray)
_FLOATS = (float, np.floating)


def numbers_of_episodes(
    names: Mapping[str, Any], lists: Mapping[Path, Sequence[Any]]
) -> Iterator[tuple[Path, Any]]:
    """By the way there, the numbers in what ``lists`` hold of each episode, and other lists of one
    for each; none that are the same for all of them, as settings are, or zero, as nothing is
    expected behind an end."""
    for path, items in lists.items():
        told = [_numbers_in(one) for one in items]
        for way in told[0]:
            values = [one[way] for one in told if way in one]
            if len(values) == len(told) and len(set(values)) > 1:
                yield from (((*path, str(n), *way), one) for n, one in enumerate(values) if one)
    counts = {len(one) for one in lists.values()}
    found = dict[Path, Any]()

    def looks(path: Path, value: Any) -> bool:
        if not isinstance(value, _SEQUENCES):
            return False
        plain = isinstance(value, list) and len(value) in counts
        if plain and all(isinstance(one, _FLOATS) for one in value) and len(set(value)) > 1:
            found[path] = list(value)
        return True

    for name, value in names.items() if counts else ():
        walked(value, looks, (name,))
    yield from found.items()


def _numbers_in(item: Any) -> dict[Path, float]:
    found = dict[Path, float]()

    def looks(path: Path, value: Any) -> bool:
        if isinstance(value, _FLOATS) and path:
            found[path] = float(value)
        return isinstance(value, (*_FLOATS, *_SEQUENCES))

    walked(item, looks)
    return found
