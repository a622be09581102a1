"""A user's collectors, as the specs of test_collection.py name them."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.collectors import Collector, MultiSyncCollector
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, TensorDictPrimer, TransformedEnv
from torchrl.envs.transforms import Transform
from torchrl.modules import MLP, LSTMModule, QValueModule, set_recurrent_mode


def make_parts() -> list[nn.Module]:
    cell = LSTMModule(input_size=4, hidden_size=8, in_key="observation", out_key="features")
    net = MLP(in_features=8, out_features=2, num_cells=[])
    head = TensorDictModule(net, in_keys=["features"], out_keys=["action_value"])
    return [cell, head, QValueModule(action_space="categorical")]


def _collected(create_env_fn: Any, policy: Any, **settings: Any) -> Iterator[TensorDictBase]:
    for batch in Collector(
        create_env_fn, policy, frames_per_batch=60, total_frames=600, **settings
    ):
        yield batch.clone()


def random_first(create_env_fn: Any, policy: Any, reset: bool) -> Iterator[TensorDictBase]:
    return _collected(create_env_fn, policy, init_random_frames=60, reset_at_each_iter=reset)


def random_rollout(create_env_fn: Any, policy: Any) -> Iterator[TensorDictBase]:
    env = create_env_fn()
    yield env.rollout(60, break_when_any_done=False)
    with torch.no_grad():
        for _ in range(2):
            yield env.rollout(60, policy, break_when_any_done=False)


def in_turns(create_env_fn: Any, policy: Any) -> Iterator[TensorDictBase]:
    made = [Collector(create_env_fn, policy, frames_per_batch=20, total_frames=600) for _ in "ab"]
    made[1].env.set_seed(7)
    sources = [iter(one) for one in made]
    for number in range(6):
        yield next(sources[number % 2]).clone()


def joined_rows(create_env_fn: Any, policy: Any, mark: bool) -> Iterator[TensorDictBase]:
    for batch in _collected(create_env_fn, policy):
        if mark:
            batch["is_init"][..., 0, :] = True
        yield batch.reshape(-1)


def in_recurrent_mode(create_env_fn: Any, policy: Any) -> Iterator[TensorDictBase]:
    with set_recurrent_mode(True):
        yield from _collected(create_env_fn, policy)


def own_policy(create_env_fn: Any, policy: Any, loaded: bool) -> Collector:
    """A policy that is built anew, as a script's second half may do."""
    anew = type(policy)(*make_parts())
    if loaded:
        anew.load_state_dict(policy.state_dict())
    return Collector(create_env_fn, anew, frames_per_batch=60, total_frames=120)


def in_processes(create_env_fn: Any, policy: Any) -> Iterator[TensorDictBase]:
    """The mode of this process does not reach the workers."""
    made = MultiSyncCollector([create_env_fn] * 2, policy, frames_per_batch=60, total_frames=120)
    with set_recurrent_mode(True):
        for batch in made:
            yield batch.clone()


# --- an own cell that writes nothing but its action and state ------------------------------------


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor, h: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        flat = torch.where(start, torch.zeros_like(h), h).reshape(-1, 8)
        h = self.cell(x.reshape(-1, 4), flat).reshape(h.shape)
        return self.head(h).argmax(-1), h


def make_cell() -> TensorDictModule:
    return TensorDictModule(
        Cell(), in_keys=["observation", "h", "is_init"], out_keys=["action", ("next", "h")]
    )


def make_embedding() -> TensorDictModule:
    return TensorDictModule(
        Embedding(), in_keys=["observation", "h", "is_init"], out_keys=["embed", ("next", "h")]
    )


class Embedding(Cell):
    def forward(self, x: Tensor, h: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        h = super().forward(x, h, start)[1]
        return h, h


def make_env(size: int = 0) -> TransformedEnv:
    """CartPole with a primer for states of ``size``, where it is given."""
    found: list[Transform] = [InitTracker()]
    if size:
        found.append(TensorDictPrimer({"h": Unbounded((size,))}, expand_specs=True))
    return TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), Compose(*found))


# --- trouble in a worker process -----------------------------------------------------------------


class Trouble(Transform):
    """In a worker process the tenth step goes wrong; ``note`` says that it has begun."""

    def __init__(self, how: str, note: str) -> None:
        super().__init__()
        self.how, self.note, self.steps = how, note, 0

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        self.steps += 1
        if multiprocessing.parent_process() is not None and self.steps == 10:
            Path(self.note).write_text(str(os.getpid()))
            if self.how == "die":
                os._exit(3)
            if self.how == "hang":
                time.sleep(600)
            raise ValueError("late trouble")
        return next_tensordict


def make_troubled_env(how: str, note: str) -> TransformedEnv:
    env = make_env().append_transform(make_parts()[0].make_tensordict_primer())
    return env.append_transform(Trouble(how, note))
