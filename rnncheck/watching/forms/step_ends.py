"""Where episodes end among the steps of plain envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rnncheck.watching.forms.four_parts import FiveParts
from rnncheck.watching.forms.plain_calls import PlainStep

_SEVERAL = 2  # whole episodes, behind one another; chosen


def is_one_episode(steps: Sequence[PlainStep]) -> bool:
    """Whether every env was stepped to the end of an episode, and no further."""
    if not steps or not is_all_over(steps[-1]):
        return False
    return not any(map(is_over, steps[:-1]))


def is_all_over(step: PlainStep) -> bool:
    """Whether an episode ended with it in every env."""
    return bool(np.all(_ends(step)))


def is_over(step: PlainStep) -> bool:
    """Whether an episode ended with it."""
    return bool(np.any(_ends(step)))


def end_with_time(steps: Sequence[PlainStep]) -> bool:
    """Whether the env tells of all ends by one flag, and its episodes, several of them, were all of
    one length: by a limit of time, it may be, that the flag does not tell from an end."""
    env = steps[0].env
    if not isinstance(env, FiveParts) and not getattr(env, "one_flag", False):
        return False
    begun = np.zeros(steps[0].rows, int)
    whole, lengths = np.zeros(steps[0].rows, bool), list[int]()  # episodes that began in the steps
    for number, step in enumerate(steps):
        if np.any(np.asarray(step.truncated)):
            return False
        over = np.asarray(step.terminated).reshape(-1)
        if over.shape != begun.shape:
            return False
        lengths += (number + 1 - begun)[over & whole].tolist()
        begun, whole = np.where(over, number + 1, begun), whole | over
    return len(lengths) >= _SEVERAL and len(set(lengths)) == 1


def _ends(step: PlainStep) -> Any:
    return np.asarray(step.terminated) | np.asarray(step.truncated)
