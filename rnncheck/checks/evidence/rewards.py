"""What the env paid, in a training batch."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.keys import Key, tensor_keys


def reward_keys(td: TensorDictBase) -> list[Key]:
    """What the env paid, in a group of agents as well."""
    return [key for key in tensor_keys(td) if key[0] == "next" and key[-1] == "reward"]


def paid_more(sample: Sample, td: TensorDictBase, at: Tensor, more: float = 1.0) -> TensorDictBase:
    """The batch with ``more`` added to all rewards at ``at``, ``[rows, steps]``."""
    paid = td.clone()
    for key in reward_keys(td):
        reward = paid.get(key)
        other = reward.reshape(*sample.rows.shape, -1) + more * at.unsqueeze(-1).to(reward.dtype)
        paid.set(key, other.reshape(reward.shape))
    return paid
