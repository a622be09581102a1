"""A critic with a cell of its own, called on one observation more than there are steps."""

from __future__ import annotations

SCRIPT = """
import copy

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, set_recurrent_mode


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.value = nn.LSTMCell(4, 16), nn.Linear(16, 2)

    def forward(self, obs, start):
        h = c = obs.new_zeros(len(obs), 16)
        found = []
        for t in range(obs.shape[1]):
            keep = (~start[:, t]).float()
            h, c = self.cell(obs[:, t], (h * keep, c * keep))
            found.append(self.value(h))
        return torch.stack(found, 1)


torch.manual_seed(0)


def make_env():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


gru = GRUModule(4, 16, in_key="observation", out_key="feat")
body = TensorDictSequential(gru, TensorDictModule(nn.Linear(16, 2), ["feat"], ["logits"]))
choose = TensorDictModule(lambda x: torch.distributions.Categorical(logits=x).sample(),
                          ["logits"], ["action"])
env = TransformedEnv(SerialEnv(4, make_env), Compose(InitTracker(), StepCounter(15)))
env.append_transform(gru.make_tensordict_primer())
env.set_seed(0)
critic = Critic()
target = copy.deepcopy(critic).requires_grad_(False)
optim = torch.optim.Adam([*body.parameters(), *critic.parameters()], 1e-3)


def losses(batch):
    obs = torch.cat([batch["observation"], batch["next", "observation"][:, -1:]], 1)
    start = torch.cat([batch["is_init"], torch.zeros_like(batch["is_init"][:, :1])], 1)
    with set_recurrent_mode(True):
        out = body(batch.select("observation", "is_init", "recurrent_state"))
    logp, q = out["logits"].log_softmax(-1), critic(obs, start)
    with torch.no_grad():
        v = target(obs, start).max(-1).values
        over = batch["next", "terminated"].squeeze(-1).float()
        y = batch["next", "reward"].squeeze(-1) + 0.9 * (1 - over) * v[:, 1:]
        there = (~batch["next", "truncated"].squeeze(-1)).float()
    chosen = q[:, :-1].gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
    value_loss = ((chosen - y).square() * there).sum() / there.sum()
    policy_loss = -(logp.exp() * q[:, :-1].detach()).sum(-1).mean()
    return value_loss + policy_loss


for update in range(8):
    with torch.no_grad():
        batch = env.rollout(24, TensorDictSequential(body, choose), break_when_any_done=False)
    loss = losses(batch)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
KEPT = ("(h * keep, c * keep)", "(h, c)")
OWN_VALUE = ("* v[:, 1:]", "* v[:, :-1]")

# The next step of each step is taken by turns with the step itself.
BY_TURNS = (
    """        v = target(obs, start).max(-1).values
""",
    """        h = c = obs.new_zeros(len(obs), 16)
        found = []
        for t in range(24):
            keep = (~start[:, t]).float()
            before = (h * keep, c * keep)
            h, c = target.cell(obs[:, t], before)
            after, _ = target.cell(batch["next", "observation"][:, t], (h, c))
            found.append(target.value(after).max(-1).values)
        v = torch.stack(found, 1)
""",
)
OF_NEXT = ("* v[:, 1:]", "* v")
FROM_BEFORE = (", (h, c))\n            found", ", before)\n            found")
