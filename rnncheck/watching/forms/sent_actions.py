"""What a loop makes of an action on its way to an env of gymnasium's."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

AS_IT_IS, CLIPPED, RESCALED = "", "clipped", "rescaled"
WAYS = (CLIPPED, RESCALED)  # to the limits of its space; from -1 and 1 to these


def sent(action: np.ndarray[Any, Any], space: gymnasium.spaces.Box, way: str) -> Any:
    """What the env is given."""
    if way == CLIPPED:
        return np.clip(action, space.low, space.high)
    return space.low + (action + 1) / 2 * (space.high - space.low)


def sends(env: gymnasium.Env[Any, Any], way: str) -> gymnasium.Env[Any, Any]:
    """The env, as the loop steps it."""
    if way == CLIPPED:
        return gymnasium.wrappers.ClipAction(env)
    return (
        gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))
        if way == RESCALED
        else env
    )
