"""A healthy actor-critic whose code ends its process in a given way at a given place.

``RNNCHECK_WAY`` names the way, ``RNNCHECK_PLACE`` a stage, or the file of a check.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import Unbounded
from torchrl.envs import GymEnv, InitTracker, StepCounter, TensorDictPrimer, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, ValueOperator, set_recurrent_mode
from torchrl.objectives.value import GAE


class Own(BaseException):
    """An exception that ``except Exception`` lets through."""


def hang() -> None:
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


def raising(error: BaseException) -> Callable[[], None]:
    def way() -> None:
        raise error

    return way


WAYS: dict[str, Callable[[], Any]] = {
    "SystemExit": raising(SystemExit(0)),
    "GeneratorExit": raising(GeneratorExit()),
    "KeyboardInterrupt": raising(KeyboardInterrupt()),
    "own": raising(Own("mine")),
    "_exit-0": lambda: os._exit(0),
    "_exit-3": lambda: os._exit(3),
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "fork": os.fork,
    "atexit": lambda: atexit.register(os._exit, 0),
    "hang": hang,
}
_done: list[bool] = []


def here(place: str) -> None:
    """End the process, if this is where, for the first time."""
    way, wanted = os.environ.get("RNNCHECK_WAY", ""), os.environ.get("RNNCHECK_PLACE", "")
    if way and not _done and (place == wanted or _asked_by(wanted)):
        _done.append(True)
        WAYS[way]()


def _asked_by(check: str) -> bool:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if Path(frame.f_code.co_filename).name.startswith(f"{check}_"):
            return True
        frame = frame.f_back
    return False


class Watched(nn.Module):
    """Hands its input on."""

    def __init__(self, acting: str = "") -> None:
        super().__init__()
        self.acting = acting

    def forward(self, x: Tensor) -> Tensor:
        here(self.acting)
        return x


def make_env() -> TransformedEnv:
    here("env")
    env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), InitTracker())
    env.append_transform(StepCounter(max_steps=12))
    return env.append_transform(TensorDictPrimer({"policy_state": Unbounded(shape=(1, 8))}))


def network(name: str, out: nn.Module, key: str, acting: str = "") -> list[TensorDictModule]:
    return [
        TensorDictModule(Watched(acting), in_keys=["observation"], out_keys=[f"{name}_seen"]),
        GRUModule(
            input_size=4,
            hidden_size=8,
            in_keys=[f"{name}_seen", f"{name}_state"],
            out_keys=[f"{name}_embed", ("next", f"{name}_state")],
        ),
        TensorDictModule(out, in_keys=[f"{name}_embed"], out_keys=[key]),
    ]


def make_policy() -> ProbabilisticActor:
    here("policy")
    body = TensorDictSequential(*network("policy", nn.Linear(8, 2), "logits", "collect"))
    return ProbabilisticActor(
        body, in_keys=["logits"], distribution_class=Categorical, return_log_prob=True
    )


def make_critic() -> TensorDictSequential:
    here("critic")
    *memory, _ = network("critic", nn.Identity(), "unused")
    return TensorDictSequential(*memory, ValueOperator(nn.Linear(8, 1), in_keys=["critic_embed"]))


def make_advantage(critic: TensorDictSequential) -> Callable[[TensorDictBase], TensorDictBase]:
    here("advantage")
    estimator = GAE(gamma=0.9, lmbda=0.9, value_network=critic, shifted=True)

    def advantage(data: TensorDictBase) -> TensorDictBase:
        with set_recurrent_mode(True):
            return estimator(data)

    return advantage


def make_batch(data: TensorDictBase) -> TensorDictBase:
    here("replay")
    return data


class PolicyGradient(nn.Module):
    def __init__(self, policy: nn.Module, critic: nn.Module) -> None:
        super().__init__()
        self.policy, self.critic = policy, critic

    def forward(self, data: TensorDictBase) -> TensorDict:
        here("loss")
        with set_recurrent_mode(True):
            chosen = self.policy.get_dist(data.copy()).log_prob(data["action"])
            values = self.critic(data.copy())["state_value"]
        error = (values - data["value_target"]).square().mean()
        gain = -(chosen * data["advantage"].squeeze(-1)).mean()
        return TensorDict({"loss_policy": gain, "loss_critic": error}, [])


def make_loss(policy: nn.Module, critic: nn.Module) -> PolicyGradient:
    torch.manual_seed(0)
    return PolicyGradient(policy, critic)
