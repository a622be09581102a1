"""Tools for changing which actions an env reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.data import Categorical, OneHot
from torchrl.envs import EnvBase, Transform

from rnncheck.pipeline.keys import Key, as_key


def one_hot_actions(env: EnvBase) -> list[Key]:
    """The actions that the env reads one-hot."""
    return [as_key(key) for key in env.action_keys if type(env.full_action_spec[key]) is OneHot]


def index_actions(env: EnvBase) -> list[Key]:
    """The actions that the env reads as the number of one of a few."""
    spec = env.full_action_spec
    return [as_key(key) for key in env.action_keys if type(spec[key]) is Categorical]


class OneHotActions(Transform):
    """Lets an env that reads the number of an action read it one-hot, as TorchRL's envs do: by the
    place of the largest entry, which is the first where there is one entry alone."""

    def __init__(self, sizes: dict[Key, tuple[torch.Size, int]]) -> None:
        super().__init__()
        self.sizes = sizes  # of each action: its shape without batch dimensions, its choices

    def transform_input_spec(self, input_spec: Any) -> Any:
        """One-hot specs in the place of those of numbers."""
        actions = input_spec["full_action_spec"]
        for key, (_, count) in self.sizes.items():
            shape, device = actions[key].shape, actions[key].device
            actions[key] = OneHot(count, shape=(*shape, count), device=device)
        return input_spec

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for key, (shape, count) in self.sizes.items():
            value = tensordict.get(key, None)
            if value is not None:
                own = (*tensordict.batch_size, *shape)
                fits = value.shape == (*own, count)
                read = value.long().argmax(-1) if fits else torch.zeros(own, dtype=torch.long)
                tensordict.set(key, read.to(value.device))
        return tensordict


def one_hot_env(env: EnvBase, keys: Sequence[Key]) -> EnvBase:
    """``env`` that reads these numbers of actions one-hot."""
    specs = {key: env.full_action_spec[key] for key in keys}
    lead = len(env.batch_size)
    sizes = {key: (spec.shape[lead:], int(spec.space.n)) for key, spec in specs.items()}
    changed: EnvBase = env.append_transform(OneHotActions(sizes))
    return changed
