"""A policy over sequences without the modules that only add noise to its actions: what these are
made for may be one step of the script's envs alone."""

from __future__ import annotations

from typing import Any, cast

from tensordict import TensorDictBase
from tensordict.nn import TensorDictSequential
from torch import nn
from torchrl.modules import (
    AdditiveGaussianModule,
    EGreedyModule,
    OrnsteinUhlenbeckProcessModule,
)

from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.keys import declared
from rnncheck.pipeline.subject.modes import InMode, measuring

_NOISE = (AdditiveGaussianModule, EGreedyModule, OrnsteinUhlenbeckProcessModule)


def without_noise(policy: Any, batch: TensorDictBase) -> Any:
    """The policy without them, where it runs on a batch ``[..., steps]`` in recurrent mode that way
    alone; None elsewhere. TorchRL's check of the action's form is theirs as well, whatever is
    drawn."""
    if not isinstance(policy, TensorDictSequential):
        return None
    if not any(isinstance(one, _NOISE) for one in all_modules(policy)):
        return None
    left = _left(policy)
    if left is None or _runs(policy, batch) or not _runs(left, batch):
        return None
    return InMode(left, recurrent=True)


def _left(policy: TensorDictSequential) -> TensorDictSequential | None:
    kept = list[nn.Module]()
    for one in cast("nn.ModuleList", policy.module):
        inner = _left(one) if isinstance(one, TensorDictSequential) else one
        if inner is not None and not isinstance(inner, _NOISE):
            kept.append(inner)
    return TensorDictSequential(*kept) if kept else None


def _runs(policy: nn.Module, batch: TensorDictBase) -> bool:
    given = [key for key in declared(policy, "in_keys") if key in batch.keys(True)]
    try:
        with measuring(recurrent=True):
            policy(batch.select(*given))
    except Exception:  # the user's modules may raise anything
        return False
    return True
