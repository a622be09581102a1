"""Loops over single steps that train on a part of what they collected."""

from __future__ import annotations

STEPPED = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode

torch.manual_seed(0)
STEPS, HALF = 20, 10


def make_env():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


env = TransformedEnv(SerialEnv(3, make_env), Compose(InitTracker(), StepCounter(200)))
env.set_seed(0)
gru = GRUModule(4, 24, in_key="observation", out_key="feat")
env.append_transform(gru.make_tensordict_primer())
actor = ProbabilisticActor(
    TensorDictSequential(gru, TensorDictModule(nn.Linear(24, 2), ["feat"], ["logits"])),
    in_keys=["logits"],
    distribution_class=torch.distributions.Categorical,
    default_interaction_type="random",
)
optim = torch.optim.Adam(actor.parameters(), 1e-3)


def loss_of(batch):
    with set_recurrent_mode(True):
        dist = actor.get_dist(batch.select("observation", "is_init", "recurrent_state"))
    told = dist.log_prob(batch["action"])
    reward, done = batch["next", "reward"].squeeze(-1), batch["next", "done"].squeeze(-1)
    togo, after = torch.empty_like(reward), 0.0
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + 0.9 * after * (~done[:, t])
        togo[:, t] = after
    return -(told * (togo - 5.0)).mean()


td = env.reset()
for update in range(8):
    steps = []
    for _ in range(STEPS):
        with torch.no_grad():
            now, td = env.step_and_maybe_reset(actor(td))
        steps.append(now)
    batch = torch.stack(steps, 1)
    loss = loss_of(GIVEN)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
HALF, ALL = "batch[:, HALF:]", "batch"
# The state that the first half began with.
EARLY = 'batch[:, HALF:].clone().set("recurrent_state", batch["recurrent_state"][:, :HALF])'
NO_STATE = ('"observation", "is_init", "recurrent_state"', '"observation", "is_init"')

# No TorchRL: the steps of one env are lists.
PLAIN = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

STEPS, HALF = 40, 20


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.pi = nn.GRUCell(4, 16), nn.Linear(16, 2)

    def forward(self, x, h):
        h = self.cell(x.view(1, 4), h)
        return self.pi(h), h

    @torch.no_grad()
    def act(self, x, h):
        logits, h = self(x, h)
        return Categorical(logits=logits).sample(), h


torch.manual_seed(0)
env, net = gym.make("CartPole-v1", max_episode_steps=15), Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-2)
obs, h, done = env.reset(seed=0)[0], torch.zeros(1, 16), False
for _ in range(6):
    xs, hs, acts, rews, starts, ends = [], [], [], [], [], []
    for _ in range(STEPS):
        xs.append(torch.as_tensor(obs))
        hs.append(h)
        starts.append(done)
        action, h = net.act(xs[-1], h)
        obs, reward, terminated, truncated, _ = env.step(action.item())
        done = terminated or truncated
        acts.append(action)
        rews.append(reward)
        ends.append(done)
        if done:
            obs, h = env.reset()[0], torch.zeros(1, 16)
    togo, after = [], 0.0
    for reward, end in zip(reversed(rews), reversed(ends)):
        after = reward + 0.9 * after * (1 - end)
        togo.insert(0, after)
    state, found = hs[HALF], []
    for x, start, action in zip(xs[HALF:], starts[HALF:], acts[HALF:]):
        state = torch.zeros(1, 16) if start else state
        logits, state = net(x, state)
        found.append(Categorical(logits=logits).log_prob(action))
    loss = -(torch.cat(found) * (torch.tensor(togo[HALF:]) - 5.0)).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
FROM_ZERO = ("state, found = hs[HALF], []", "state, found = torch.zeros(1, 16), []")
