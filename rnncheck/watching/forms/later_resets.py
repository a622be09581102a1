"""Steps of vector envs that reset an env and do nothing else, and where the state begins anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.watching.forms.plain_calls import PlainStep, ToldCall

BEHIND_THE_RESET = (
    "the state that acting carries begins anew behind the steps in which the vector env resets an"
    " env (`AutoresetMode.NEXT_STEP`), and not with these: which steps belong to an episode is not"
    " seen then; make the vector env with `autoreset_mode=AutoresetMode.SAME_STEP`"
)


def begins_behind_resets(steps: Sequence[PlainStep], whole: TensorDictBase, told: ToldCall) -> bool:
    """Whether the state goes on into every step of ``whole`` ``[rows, steps]`` that resets an env,
    and is zero at every one behind these."""
    resets = torch.from_numpy(np.stack([np.atleast_1d(one.reset) for one in steps], 1))
    inside = resets[:, 1:-1]
    if resets.shape != whole.shape or not told.carry or not bool(inside.any()):
        return False
    states = [whole.get(key) for key in told.carry]
    held = torch.stack([_held(one) for one in states]).any(0)
    return bool(held[:, 1:-1][inside].all()) and not bool(held[:, 2:][inside].any())


def _held(states: Tensor) -> Tensor:
    """``[rows, steps]``: where any of it is not zero."""
    return (states != 0).flatten(2).any(2)
