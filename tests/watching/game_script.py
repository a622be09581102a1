"""Rollouts of whole episodes: every batch ends with them, and the next one begins anew."""

from __future__ import annotations

GAMES = """
import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymWrapper, InitTracker, SerialEnv, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, ValueOperator, set_recurrent_mode

torch.manual_seed(0)
LENGTH = 8


class Games(gym.Wrapper):
    seed, first, steps = 0, None, 0

    def reset(self, **_):
        if self.first is None:
            Games.seed += 1
            self.first = self.env.reset(seed=Games.seed)
        first, self.first, self.steps = self.first, None, 0
        return first

    def step(self, action):
        seen, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        terminated = terminated or self.steps == LENGTH
        return seen, reward, terminated, truncated, info


def make_env():
    return GymWrapper(Games(gym.make("CartPole-v1")), categorical_action_encoding=True)


env = TransformedEnv(SerialEnv(3, make_env), Compose(InitTracker()))
gru = GRUModule(4, 24, in_key="observation", out_key="feat")
env.append_transform(gru.make_tensordict_primer())
actor = ProbabilisticActor(
    TensorDictSequential(gru, TensorDictModule(nn.Linear(24, 2), ["feat"], ["logits"])),
    in_keys=["logits"],
    distribution_class=torch.distributions.Categorical,
    default_interaction_type="random",
)
critic = ValueOperator(nn.Linear(24, 1), in_keys=["feat"])
optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 1e-3)


def value_behind(batch):
    last = batch["next"][:, -1].select("observation", "recurrent_state").clone()
    last["is_init"] = torch.zeros(len(last), 1, dtype=torch.bool)
    return critic(gru(last))["state_value"].squeeze(-1)


def loss_of(batch):
    with set_recurrent_mode(True):
        td = batch.select("observation", "is_init", "recurrent_state").clone()
        told = actor.get_dist(td).log_prob(batch["action"])
    guess = critic(td)["state_value"].squeeze(-1)
    reward, over = batch["next", "reward"].squeeze(-1), batch["next", "terminated"].squeeze(-1)
    with torch.no_grad():
        after = value_behind(batch) * (~over[:, -1])
    found = torch.empty_like(reward)
    for t in reversed(range(reward.shape[1])):
        found[:, t] = reward[:, t] + 0.97 * after
        after = found[:, t] * (~over[:, t - 1])
    gain = found - guess
    return gain.square().mean() - (told * gain.detach()).mean()


for _ in range(6):
    with torch.no_grad():
        data = env.rollout(LENGTH, actor)
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
# Their last observation is what the next batch begins with.
LOST = (
    "        return seen, reward",
    "        if terminated or truncated:\n"
    "            self.first = self.reset()\n"
    "            seen = self.first[0]\n"
    "        return seen, reward",
)
TRUNCATED = (
    "        terminated = terminated or self.steps == LENGTH",
    "        truncated = self.steps == LENGTH",
)
ALIKE = ("reset(seed=Games.seed)", "reset(seed=3)")
LAST_END_LOST = (" * (~over[:, -1])", "")
TWO_GAMES = (
    "rollout(LENGTH, actor)",
    "rollout(2 * LENGTH, actor, break_when_any_done=False)",
)
