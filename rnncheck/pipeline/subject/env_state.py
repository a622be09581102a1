"""The state that an env keeps, where it shows one: what its spec declares that a step takes, or the
``state`` of a Gymnasium env."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase, TransformedEnv
from torchrl.envs.gym_like import GymLikeEnv

from rnncheck.pipeline.keys import as_key

_LARGEST = 1024  # numbers of one env's state: chosen, beyond it is a picture or a simulator


def env_state(env: EnvBase, td: TensorDictBase) -> Tensor | None:
    """The numbers of the state before the step that acts on ``td``, ``[rows, numbers]`` in float64;
    None where the env shows none."""
    base: Any = env
    while isinstance(base, TransformedEnv):
        base = base.base_env
    rows = max(1, td.numel())
    parts = [td.get(as_key(key), None) for key in base.state_spec.keys(True, True)]
    if parts and all(isinstance(part, Tensor) for part in parts):
        wide = [part.detach().double().reshape(rows, -1) for part in parts]
        found = torch.cat(wide, 1).cpu()
    elif isinstance(base, GymLikeEnv) and rows == 1:
        found = _of_gym(getattr(base, "_env", None))
    else:
        return None
    return found if 0 < found.shape[1] <= _LARGEST else None


def _of_gym(env: Any) -> Tensor:
    """Read from the attribute, which runs no code of the env; without numbers where there is
    none."""
    held = getattr(getattr(env, "unwrapped", None), "__dict__", {}).get("state")
    try:
        values = np.array(held if held is not None else (), dtype=np.float64)
    except (TypeError, ValueError):  # it is called so and is no row of numbers
        values = np.zeros(0)
    return torch.from_numpy(values.reshape(1, -1))
