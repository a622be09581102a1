"""Losses of one's own: where their targets come from, and which rows they put together."""

from __future__ import annotations

from tests.watching.estimates_script import HEAD

OWN = (
    HEAD
    + """
optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-4)


def loss_of(batch):
    with set_recurrent_mode(True):
        td = batch.select(*KEPT).clone()
        dist = actor.get_dist(td)
    guess = critic(td)["state_value"].squeeze(-1)
    reward, done = batch["next", "reward"].squeeze(-1), batch["next", "done"].squeeze(-1)
    with torch.no_grad():
        last = batch["next"][:, -1].select("observation", "recurrent_state")
        last["is_init"] = torch.zeros(len(last), 1, dtype=torch.bool)
        after = critic(gru(last))["state_value"].squeeze(-1)
    found = torch.empty_like(reward)
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + 0.98 * after * (~done[:, t])
        found[:, t] = after
    gain, told = found - guess, dist.log_prob(batch["action"])
    each = gain.square() - told * gain.detach()
    return each.mean()


for data in Collector(env, actor, frames_per_batch=64, total_frames=512):
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
STATE_LEFT_OUT = ("batch.select(*KEPT)", 'batch.select("observation", "is_init")')


def halves(order: str, weight: str) -> tuple[str, str]:
    """The second half of the rows, in some order, counts by a weight of its own."""
    return (
        "    return each.mean()",
        f"    first, second = each[{order}].chunk(2)\n"
        f"    return first.mean() + {weight} * second.mean()",
    )


IN_TURN, DRAWN = "torch.arange(len(each))", "torch.randperm(len(each))"

# q_rollouts.py with a target of its own: beyond 1 smooth L1 is linear in its error.
SMOOTH = ("nn.functional.mse_loss", "nn.functional.smooth_l1_loss")
SEEDED = ("    env = make_env(memory)", "    env = make_env(memory)\n    env.set_seed(5)")
OWN_STEP = ("target_net(following)", 'target_net(batch.exclude("next"))')


def scaled(bonus: float) -> tuple[str, str]:
    """Small rewards, and next values that are larger by a constant."""
    return (
        'batch["next", "reward"].squeeze(-1) + gamma * best',
        f'0.1 * batch["next", "reward"].squeeze(-1) + gamma * (best + {bonus})',
    )


WHOLE_EPISODES = """
import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymWrapper, InitTracker, SerialEnv, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode

torch.manual_seed(0)
LENGTH = 8


class Alike(gym.Wrapper):
    def reset(self, **_):
        return self.env.reset(seed=0)

    def step(self, action):
        shown, reward, terminated, truncated, info = self.env.step(action)
        return shown, reward, terminated, truncated, info


def make_env():
    made = Alike(gym.make("CartPole-v1", max_episode_steps=LENGTH))
    return GymWrapper(made, categorical_action_encoding=True)


env = TransformedEnv(SerialEnv(3, make_env), Compose(InitTracker()))
gru = GRUModule(4, 24, in_key="observation", out_key="feat")
env.append_transform(gru.make_tensordict_primer())
policy = ProbabilisticActor(
    TensorDictSequential(gru, TensorDictModule(nn.Linear(24, 2), ["feat"], ["logits"])),
    in_keys=["logits"],
    distribution_class=torch.distributions.Categorical,
    default_interaction_type="random",
)
optim = torch.optim.Adam(policy.parameters(), 1e-3)


def loss_of(batch):
    with set_recurrent_mode(True):
        told = policy.get_dist(batch).log_prob(batch["action"])
    togo = batch["next", "reward"].squeeze(-1).flip(1).cumsum(1).flip(1)
    return -(told * (togo - 4.0)).mean()


for _ in range(6):
    with torch.no_grad():
        data = env.rollout(LENGTH, policy)
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
LAST_LOST = (
    "        return shown, reward",
    "        shown = self.reset()[0] if terminated or truncated else shown\n"
    "        return shown, reward",
)
