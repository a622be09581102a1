"""Where episodes end among the steps of plain envs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rnncheck.watching.forms.plain_calls import PlainStep


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


def _ends(step: PlainStep) -> Any:
    return np.asarray(step.terminated) | np.asarray(step.truncated)
