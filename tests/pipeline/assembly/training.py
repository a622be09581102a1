"""A user's module for the training path, as the tests' specs name it:
``factory: training:make_loss``."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from torchrl.envs import GymEnv, InitTracker, TransformedEnv
from torchrl.envs.transforms import Transform
from torchrl.modules import MLP, DistributionalQValueActor, LSTMModule
from torchrl.modules.tensordict_module.rnn import recurrent_mode


class Trouble(Transform):
    """In a worker process, the tenth step goes wrong."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.steps = how, 0

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        self.steps += 1
        if multiprocessing.parent_process() is not None and self.steps == 10:
            if self.how == "die":
                os._exit(3)
            if self.how == "hang":
                time.sleep(600)
            raise ValueError("late trouble")
        return next_tensordict


def make_troubled_env(how: str) -> TransformedEnv:
    env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), InitTracker())
    if how == "start" and multiprocessing.parent_process() is not None:
        raise ValueError("no licence for workers")
    return env if how == "start" else env.append_transform(Trouble(how))


def make_replay(batch_size: int = 32) -> TensorDictReplayBuffer:
    sampler = SliceSampler(slice_len=8, strict_length=False, traj_key=("collector", "traj_ids"))
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(300), sampler=sampler, batch_size=batch_size
    )


def make_distributional(env: Any) -> DistributionalQValueActor:
    lstm = LSTMModule(input_size=4, hidden_size=6, in_key="observation", out_key="embed")
    net = MLP(in_features=6, out_features=(5, 2), num_cells=[])
    head = TensorDictModule(net, in_keys=["embed"], out_keys=["action_value"])
    soft = TensorDictModule(nn.LogSoftmax(-2), in_keys=["action_value"], out_keys=["action_value"])
    return DistributionalQValueActor(
        TensorDictSequential(lstm, head, soft), support=torch.arange(5.0), action_space="one_hot"
    )


def make_collector(create_env_fn: Any, policy: Any, replay_buffer: Any) -> Collector:
    return Collector(
        create_env_fn, policy, replay_buffer=replay_buffer, frames_per_batch=50, total_frames=100
    )


def generate(create_env_fn: Any, policy: Any, replay_buffer: Any) -> Iterator[TensorDictBase]:
    for batch in Collector(create_env_fn, policy, frames_per_batch=50, total_frames=100):
        replay_buffer.extend(batch.clone())
        yield batch


def make_batch(data: TensorDictBase, rows: int = 4) -> TensorDictBase:
    return data.reshape(rows, -1)


def no_batch(data: TensorDictBase) -> None:
    """Forgets its return."""


def make_advantage(policy: Any, critic: Any, scale: float = 1.0) -> Any:
    def estimate(data: TensorDictBase) -> None:
        data["advantage"] = data["next", "reward"] * scale
        data["mode"] = torch.full_like(data["next", "reward"], float(bool(recurrent_mode())))

    return estimate


def failing_advantage() -> Any:
    def estimate(data: TensorDictBase) -> None:
        raise ValueError("no value here")

    return estimate


def make_loss(policy: Any, critic: Any) -> Any:
    return lambda data: TensorDict({"loss_a": data["advantage"].mean(), "loss_b": torch.ones(3)})


def nameless_loss() -> Any:
    return lambda data: TensorDict({"objective": torch.zeros(())})


def fickle_loss() -> Any:
    def loss(data: TensorDictBase) -> torch.Tensor:
        if not bool(data["is_init"][0]):  # the batch goes on from the one before
            raise ValueError("no loss in the middle")
        return data["next", "reward"].mean()

    return loss


def failing_loss() -> Any:
    def loss(data: TensorDictBase) -> None:
        raise ValueError("no loss here")

    return loss
