"""A policy whose action the script's loop draws itself, out of what the policy gives."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase

from rnncheck.pipeline.keys import Key, as_key, declared, tensor_keys


class DrawsActions(nn.Module):
    """Runs the ``policy``; where no action is there yet, it is any that the ``env`` takes. What the
    loop makes of the policy's outputs is not known, and only another env step asks for it."""

    def __init__(self, policy: nn.Module, env: EnvBase) -> None:
        super().__init__()
        self.policy = policy
        rows = (0,) * env.batch_dims
        specs = {as_key(key): env.full_action_spec[key] for key in env.action_keys}
        self._specs = {key: one[rows] if rows else one for key, one in specs.items()}
        self.in_keys = list(declared(policy, "in_keys"))
        self.out_keys: list[Key] = [*declared(policy, "out_keys"), *self._specs]

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        """The policy's outputs, with an action for each of the steps."""
        there = set(tensor_keys(td))
        out: TensorDictBase = self.policy(td)
        for key, spec in self._specs.items():
            if key not in there:
                drawn = [spec.rand() for _ in range(td.numel())]
                whole = torch.stack(drawn) if td.batch_dims else drawn[0]
                out.set(key, whole.reshape((*td.batch_size, *spec.shape)))
        return out
