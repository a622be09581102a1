"""What a batch holds of each of its steps and of what lies behind them that acting carried along,
as the action of the step before."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.plain_calls import MOSTLY, ToldCall


def carried_along(value: Tensor | None, batch: TensorDictBase, told: ToldCall) -> Key | None:
    """The carried entry that ``value`` ``[rows, steps, ...]`` is, at its own steps; None where it
    is none, or the same throughout."""
    if value is None or not bool((value != value.reshape(-1)[0]).any()):
        return None
    flat = value.reshape(*batch.shape, -1)
    for key in told.carry:
        own = batch.get(key).reshape(*batch.shape, -1)
        if own.shape == flat.shape:
            alike = (own == flat.to(own.dtype)).all(-1).double().mean()
            if float(alike) >= MOSTLY:
                return key
    return None
