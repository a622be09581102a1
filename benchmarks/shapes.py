"""Pipelines that bench_self verifies beside CartPole's: DQN through the scan backend, pixels, SAC
on rows, two agents.

Plain TorchRL. The specs of the same names take them apart as factories, and bare_shapes.py runs
each once without rnncheck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import (
    NormalParamExtractor,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import Tensor, nn
from torch.distributions import Categorical
from torchrl.data import Binary, Composite, Unbounded
from torchrl.data import Categorical as Choice
from torchrl.envs import (
    Compose,
    EnvBase,
    GrayScale,
    GymEnv,
    InitTracker,
    ObservationTransform,
    SerialEnv,
    StepCounter,
    TensorDictPrimer,
    ToTensorImage,
    Transform,
    TransformedEnv,
)
from torchrl.modules import (
    ConvNet,
    LSTMModule,
    ProbabilisticActor,
    QValueModule,
    TanhNormal,
    set_recurrent_mode,
)
from torchrl.modules.tensordict_module.rnn import recurrent_mode
from torchrl.objectives import LossModule, SACLoss

HIDDEN, TEAM, SEEN = 24, 2, 3


# --- envs ----------------------------------------------------------------------------------------


class Shrink(ObservationTransform):
    """Averages over squares of eight pixels, which needs no torchvision."""

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(obs, 8)

    def _reset(self, tensordict: TensorDictBase, reset: TensorDictBase) -> TensorDictBase:
        return self._call(reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        spec = observation_spec["pixels"]
        shape = [*spec.shape[:-2], *(size // 8 for size in spec.shape[-2:])]
        observation_spec["pixels"] = Unbounded(shape, dtype=spec.dtype)
        return observation_spec


def remembering(base: EnvBase, most: int, *seen: Transform) -> EnvBase:
    """With a start flag, at most so many steps to an episode, and the LSTM's empty states."""
    states = {f"recurrent_state_{name}": Unbounded((1, HIDDEN)) for name in "hc"}
    primer = TensorDictPrimer(states, expand_specs=True)
    return TransformedEnv(base, Compose(*seen, InitTracker(), StepCounter(max_steps=most), primer))


def cartpole() -> EnvBase:
    """Episodes of at most 30 steps."""
    return remembering(GymEnv("CartPole-v1", categorical_action_encoding=True), 30)


def cartpole_pixels() -> EnvBase:
    """The same in grey, an eighth as wide and high."""
    base = GymEnv("CartPole-v1", from_pixels=True, categorical_action_encoding=True)
    return remembering(base, 30, ToTensorImage(), GrayScale(), Shrink(["pixels"], ["pixels"]))


def pendulums(rows: int = 4) -> EnvBase:
    """Side by side, cut off after 20 steps."""
    return SerialEnv(rows, lambda: remembering(GymEnv("Pendulum-v1"), 20))


class Team(EnvBase):
    """Two agents, each sees its own half of what both move; they share reward and end."""

    def __init__(self) -> None:
        super().__init__(batch_size=torch.Size([]))
        self.observation_spec = Composite(agents=Composite(observation=Unbounded((TEAM, SEEN))))
        self.action_spec = Composite(agents=Composite(action=Choice(2, (TEAM,))))
        self.reward_spec = Unbounded((1,))
        flag = Binary(1, dtype=torch.bool)
        self.full_done_spec = Composite(done=flag.clone(), terminated=flag.clone())
        self.random = torch.Generator()
        self.place, self.left = torch.zeros(TEAM, SEEN), 0

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        self.place = torch.randn(TEAM, SEEN, generator=self.random)
        self.left = 5 + int(torch.randint(0, 10, (), generator=self.random))
        return TensorDict({"agents": {"observation": self.place.clone()}}, [])

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        push = tensordict["agents", "action"].float().mul(2).sub(1).unsqueeze(-1)
        gust = torch.randn(TEAM, SEEN, generator=self.random)
        self.place, self.left = 0.9 * self.place + 0.2 * push + 0.1 * gust, self.left - 1
        end = torch.tensor([self.left <= 0])
        reward = -self.place.square().mean().reshape(1)
        ends = {"done": end, "terminated": end.clone(), "reward": reward}
        return TensorDict({"agents": {"observation": self.place.clone()}, **ends}, [])

    def _set_seed(self, seed: int | None) -> None:
        self.random.manual_seed(seed or 0)


def team() -> EnvBase:
    """With a start flag and empty memories at a reset."""
    empty = {("agents", "h"): Unbounded((TEAM, HIDDEN))}
    primer = TensorDictPrimer(empty, expand_specs=True)
    return TransformedEnv(Team(), Compose(InitTracker(), StepCounter(max_steps=12), primer))


# --- policies ------------------------------------------------------------------------------------


def large(size: int, outputs: int) -> nn.Linear:
    """A head with large weights, so that what it gives depends on the memory."""
    layer = nn.Linear(size, outputs)
    nn.init.orthogonal_(layer.weight, gain=3.0)
    return layer


def q_policy(env: EnvBase, size: int = 4, backend: str = "pad") -> TensorDictSequential:
    """LSTM, head and greedy choice on a vector."""
    memory = LSTMModule(
        input_size=size,
        hidden_size=HIDDEN,
        in_key="observation",
        out_key="memory",
        recurrent_backend=backend,
    )
    values = TensorDictModule(large(HIDDEN, 2), in_keys=["memory"], out_keys=["action_value"])
    choice = QValueModule(action_space="categorical", spec=env.action_spec)
    return TensorDictSequential(memory, values, choice)


def pixel_policy(env: EnvBase) -> TensorDictSequential:
    """The same behind a convolutional encoder."""
    net = ConvNet(
        in_features=1,
        num_cells=[16, 32],
        kernel_sizes=4,
        strides=2,
        squeeze_output=True,
        aggregator_class=nn.AdaptiveAvgPool2d,
        aggregator_kwargs={"output_size": [1, 1]},
    )
    encoder = TensorDictModule(net, in_keys=["pixels"], out_keys=["observation"])
    return TensorDictSequential(encoder, *q_policy(env, 32).module)


def gaussian(env: EnvBase) -> ProbabilisticActor:
    """A torque that is drawn."""
    memory = LSTMModule(input_size=3, hidden_size=HIDDEN, in_key="observation", out_key="memory")
    head = nn.Sequential(nn.Linear(HIDDEN, 2), NormalParamExtractor())
    drawn = TensorDictModule(head, in_keys=["memory"], out_keys=["loc", "scale"])
    return ProbabilisticActor(
        TensorDictSequential(memory, drawn),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 2.0},
        return_log_prob=True,
        spec=env.action_spec,
    )


class SharedCell(TensorDictModuleBase):
    """One GRU cell for both agents, each with its own state."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(SEEN, HIDDEN)
        self.in_keys = [("agents", "observation"), ("agents", "h"), "is_init"]
        self.out_keys = [("agents", "memory"), ("next", "agents", "h")]

    def step(self, seen: Tensor, state: Tensor, first: Tensor) -> Tensor:
        """The states of both agents; they are zero where an episode begins."""
        kept = torch.where(first.unsqueeze(-1), torch.zeros_like(state), state)
        new: Tensor = self.cell(seen.reshape(-1, SEEN), kept.reshape(-1, HIDDEN))
        return new.view_as(state)

    def forward(self, data: TensorDictBase) -> TensorDictBase:
        seen, stored, first = (data[key] for key in self.in_keys)
        if recurrent_mode():
            time, state, states = seen.ndim - 3, stored[..., 0, :, :], list[Tensor]()
            for t in range(seen.shape[time]):
                now = first.select(time, t)
                state = self.step(seen.select(time, t), state, now)
                states.append(state)
            new = torch.stack(states, time)
        else:
            new = self.step(seen, stored, first)
        data["agents", "memory"], data["next", "agents", "h"] = new, new
        return data


def team_policy() -> ProbabilisticActor:
    """What each agent does is drawn from its own memory."""
    head = large(HIDDEN, 2)
    logits = TensorDictModule(head, in_keys=[("agents", "memory")], out_keys=[("agents", "logits")])
    return ProbabilisticActor(
        TensorDictSequential(SharedCell(), logits),
        in_keys={"logits": ("agents", "logits")},
        out_keys=[("agents", "action")],
        distribution_class=Categorical,
        return_log_prob=True,
        log_prob_key=("agents", "log_prob"),
    )


# --- training ------------------------------------------------------------------------------------


class OneStep(LossModule):
    """TD(0): the next pass has the root's start flags and the collected next states."""

    def __init__(self, net: TensorDictSequential) -> None:
        super().__init__()
        self.net = net
        self.in_keys = list(net.in_keys)

    def forward(self, data: TensorDictBase) -> TensorDict:
        following = data["next"].select(*self.in_keys, strict=False)
        following["is_init"] = data["is_init"].clone()
        with torch.no_grad():
            best = self.net(following)["action_value"].amax(-1, keepdim=True)
        target = data["next", "reward"] + 0.97 * (~data["next", "terminated"]).float() * best
        values = self.net(data.select(*self.in_keys, strict=False))["action_value"]
        error = values.gather(-1, data["action"].unsqueeze(-1)) - target
        return TensorDict({"loss": error.pow(2).mean()}, [])


class LogProbabilities(LossModule):
    """The reward to come, weighed by how likely each agent's choice was."""

    def __init__(self, actor: ProbabilisticActor) -> None:
        super().__init__()
        self.actor = actor
        self.in_keys = list(actor.in_keys)

    def forward(self, data: TensorDictBase) -> TensorDict:
        with set_recurrent_mode(True):
            choices = self.actor.get_dist(data.select(*self.in_keys))
        drawn = choices.log_prob(data["agents", "action"])
        return TensorDict({"loss": -(drawn * data["next", "reward"]).mean()}, [])


class Worth(nn.Module):
    """The value of an observation and an action."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(large(4, 16), nn.Tanh(), large(16, 1))

    def forward(self, *entries: Tensor) -> Tensor:
        result: Tensor = self.layers(torch.cat(entries, -1))
        return result


def q_loss(policy: TensorDictSequential) -> OneStep:
    """TD(0) on the policy's own network."""
    return OneStep(policy)


def sac_loss(policy: ProbabilisticActor) -> SACLoss:
    """TorchRL's, with a critic that has no memory."""
    keys = ["observation", "action"]
    worth = TensorDictModule(Worth(), in_keys=keys, out_keys=["state_action_value"])
    return SACLoss(policy, worth)


def team_loss(policy: ProbabilisticActor) -> LogProbabilities:
    """On both agents' choices."""
    return LogProbabilities(policy)


def with_next_flags(data: TensorDictBase) -> TensorDictBase:
    """The root's start flags for the pass over the next steps."""
    return data.copy().update({("next", "is_init"): data["is_init"].clone()})


def in_rows(data: TensorDictBase, steps: int = 20) -> TensorDictBase:
    """One run in rows of equal length."""
    return torch.stack(data.split(steps, -1))


@dataclass(frozen=True)
class Shape:
    """One pipeline; ``batch`` makes a training batch of what was collected."""

    env: Callable[[], EnvBase]
    policy: Callable[..., Any]
    loss: Callable[[Any], LossModule]
    batch: Callable[[TensorDictBase], TensorDictBase]


def scan_policy(env: EnvBase) -> TensorDictSequential:
    """CartPole's, through the scan backend."""
    return q_policy(env, backend="scan")


SHAPES = {
    "scan": Shape(cartpole, scan_policy, q_loss, in_rows),
    "pixels": Shape(cartpole_pixels, pixel_policy, q_loss, in_rows),
    "sac": Shape(pendulums, gaussian, sac_loss, with_next_flags),
    "agents": Shape(team, lambda env: team_policy(), team_loss, in_rows),
}
