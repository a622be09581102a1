"""A user's module, as the tests' specs name it: ``factory: own:make_env``."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, TensorDictPrimer, TransformedEnv
from torchrl.modules import LSTMModule, QValueModule

NOT_A_FUNCTION = 3


class Cell(TensorDictModuleBase):
    """h <- tanh(W x + U h), reset where an episode starts."""

    def __init__(self, n_in: int, n_hid: int) -> None:
        super().__init__()
        self.in_keys = ["observation", "h", "is_init"]
        self.out_keys = ["embed", ("next", "h")]
        self.w, self.u = nn.Linear(n_in, n_hid), nn.Linear(n_hid, n_hid)

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        h = torch.where(td["is_init"], 0.0, td["h"])
        td["embed"] = td["next", "h"] = torch.tanh(self.w(td["observation"]) + self.u(h))
        return td


def make_env(base: type = GymEnv, size: int = 8) -> TransformedEnv:
    primer = TensorDictPrimer({"h": Unbounded(shape=(size,))}, expand_specs=True)
    return TransformedEnv(base("CartPole-v1"), Compose(InitTracker(), primer))


def make_policy(env, size=8):
    head = TensorDictModule(nn.Linear(size, 2), ["embed"], ["action_value"])
    return TensorDictSequential(Cell(4, size), head, QValueModule(spec=env.action_spec))


def make_lazy_policy(env):
    head = TensorDictModule(nn.LazyLinear(2), ["embed"], ["action_value"])
    return TensorDictSequential(Cell(4, 8), head, QValueModule(spec=env.action_spec))


def make_untracked_env():
    return GymEnv("CartPole-v1")


def make_lstm_policy(env):
    lstm = LSTMModule(input_size=4, hidden_size=8, in_key="observation", out_key="embed")
    head = TensorDictModule(nn.Linear(8, 2), ["embed"], ["action_value"])
    return TensorDictSequential(lstm, head, QValueModule(spec=env.action_spec))


def make_collector(create_env_fn, policy, **kw):
    return Collector(create_env_fn, policy, frames_per_batch=40, total_frames=kw["total_frames"])


def generate(create_env_fn, policy) -> Iterator[TensorDictBase]:
    env = create_env_fn()
    while True:
        yield env.rollout(20, policy, break_when_any_done=False)


def generate_then_raise(create_env_fn, policy) -> Iterator[TensorDictBase]:
    yield create_env_fn().rollout(20, policy, break_when_any_done=False)
    raise ValueError("the tape is full")


def one_batch(create_env_fn, policy):
    return create_env_fn().rollout(20, policy, break_when_any_done=False)


def positional(policy, /, create_env_fn, *, batches):
    return [create_env_fn().rollout(20, policy, break_when_any_done=False)] * batches


def no_batches(create_env_fn, policy):
    return []


def numbers(create_env_fn, policy):
    return [1, 2]


lambda_env = lambda: make_env()  # noqa: E731
partial_env = functools.partial(make_env, size=8)


class EnvClass:
    def __new__(cls) -> Any:
        return make_env()


class Slow(GymEnv):
    def _step(self, tensordict):
        time.sleep(30)
        return super()._step(tensordict)


class Endless(GymEnv):
    def _step(self, tensordict):
        while True:
            pass


class Breaking(GymEnv):
    steps = 0

    def _step(self, tensordict):
        self.steps += 1
        if self.steps > 25:
            raise RuntimeError("the motor broke")
        return super()._step(tensordict)


class Dead(GymEnv):
    def _reset(self, tensordict=None, **kwargs):
        raise RuntimeError("no power")


def slow_env():
    return make_env(Slow)


def endless_env():
    return make_env(Endless)


def breaking_env():
    return make_env(Breaking)


def dead_env():
    return Dead("CartPole-v1")


def raising():
    inner()


def inner():
    raise ValueError("my own mistake")


def exiting():
    sys.exit(3)


def asking():
    return input("which env? ")


def returning_nothing(env=None):
    pass


def returning_a_pair(env):
    return make_policy(env), 3


def returning_a_layer(env):
    return nn.Linear(4, 2)


def returning_a_gym_env():
    import gymnasium

    return gymnasium.make("CartPole-v1")


def needing(envv):
    return envv


def layer(n):
    return nn.Linear(4, n)
