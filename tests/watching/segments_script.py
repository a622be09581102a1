"""A script that trains on segments of its rollouts, one after the other."""

from __future__ import annotations

SEGMENTS = """
import torch
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import GymEnv, InitTracker, SerialEnv, TensorDictPrimer, TransformedEnv

N, T, PART, H = 3, 16, 8, 10


class Agent(TensorDictModuleBase):
    in_keys = ["observation", "memory", "is_init"]
    out_keys = ["action", "value", ("next", "memory")]

    def __init__(self):
        super().__init__()
        self.cell, self.head, self.worth = nn.GRUCell(2, H), nn.Linear(H, 2), nn.Linear(H, 1)

    def step(self, seen, memory, start):
        return self.cell(seen[:, ::2], memory * ~start)

    def forward(self, td):
        h = self.step(td["observation"], td["memory"], td["is_init"])
        drawn = torch.distributions.Categorical(logits=self.head(h)).sample()
        td["action"], td["value"] = nn.functional.one_hot(drawn, 2), self.worth(h)
        td["next", "memory"] = h
        return td


def returns(reward, done):
    after, found = torch.zeros_like(reward[:, 0]), []
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + 0.9 * after * ~done[:, t]
        found.append(after)
    return torch.stack(found[::-1], 1)


def main():
    torch.manual_seed(0)
    agent = Agent()
    env = TransformedEnv(SerialEnv(N, lambda: GymEnv("CartPole-v1")), InitTracker())
    states = {"memory": Unbounded((H,))}
    env.append_transform(TensorDictPrimer(states, default_value=0.0, expand_specs=True))
    optim = torch.optim.Adam(agent.parameters(), 1e-3)
    for data in Collector(env, agent, frames_per_batch=N * T, total_frames=20 * N * T):
        data["gain"] = returns(data["next", "reward"], data["next", "done"])
        memory = data["memory"][:, 0]
        optim.zero_grad()
        for part in data.split(PART, 1):
            memory = memory.detach()
            found = []
            for t in range(PART):
                memory = agent.step(part["observation"][:, t], memory, part["is_init"][:, t])
                found.append(memory)
            h = torch.stack(found, 1)
            chosen = (agent.head(h).log_softmax(-1) * part["action"]).sum(-1, keepdim=True)
            loss = -(chosen * (part["gain"] - part["value"])).mean()
            loss = loss + (agent.worth(h) - part["gain"]).square().mean()
            (loss / 2).backward()
        optim.step()


main()
"""
