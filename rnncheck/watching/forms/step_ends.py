"""Where episodes end among the steps of plain envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rnncheck.pipeline.recording.ends_by import EndsBy
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


def ends_by(steps: Sequence[PlainStep]) -> EndsBy:
    """What the env's episodes ended by, several of them: limits of time alone, or one flag for all
    ends, at one length, which may be such a limit that the flag does not tell from an end."""
    cut = sum(int(np.sum(np.asarray(step.truncated))) for step in steps)
    if cut:
        over = any(np.any(np.asarray(step.terminated)) for step in steps)
        return EndsBy.ANY if over or cut < _SEVERAL else EndsBy.LIMITS
    env, lengths = steps[0].env, _lengths(steps)
    one_flag = isinstance(env, FiveParts) or getattr(env, "one_flag", False)
    alike = len(lengths) >= _SEVERAL and len(set(lengths)) == 1
    return EndsBy.ONE_FLAG if one_flag and alike else EndsBy.ANY


def _lengths(steps: Sequence[PlainStep]) -> list[int]:
    """Of the terminated episodes that began behind another one."""
    begun, whole = np.zeros(steps[0].rows, int), np.zeros(steps[0].rows, bool)
    found = list[int]()
    for number, step in enumerate(steps):
        over = np.asarray(step.terminated).reshape(-1)
        if over.shape != begun.shape:
            return []
        found += (number + 1 - begun)[over & whole].tolist()
        begun, whole = np.where(over, number + 1, begun), whole | over
    return found


def _ends(step: PlainStep) -> Any:
    return np.asarray(step.terminated) | np.asarray(step.truncated)
