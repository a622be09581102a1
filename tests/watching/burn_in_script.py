"""A script that warms its states up inside of its loss, by cells of its own."""

from __future__ import annotations

BURN_IN = """import copy

import torch
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import GymEnv, InitTracker, SerialEnv, TensorDictPrimer, TransformedEnv

N, T, BURN, H = 3, 20, 5, 12


class Net(TensorDictModuleBase):
    in_keys = ["observation", "memory", "is_init"]
    out_keys = ["action", ("next", "memory")]

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(2, H), nn.Linear(H, 2)

    def row(self, seen, starts, h):
        found = []
        for x, start in zip(seen.unbind(1), starts.unbind(1)):
            h = self.cell(x[:, ::2], h * ~start)
            found.append(h)
        return torch.stack(found, 1)

    def forward(self, td):
        h = self.row(td["observation"][:, None], td["is_init"][:, None], td["memory"])[:, 0]
        best = self.head(h).argmax(-1)
        td["action"] = nn.functional.one_hot(torch.where(torch.rand(N) < 0.2, 1 - best, best), 2)
        td["next", "memory"] = h
        return td


class Teacher(TensorDictModuleBase):
    in_keys = ["observation", "memory", "lean", "is_init"]
    out_keys = ["action", "lean", ("next", "memory"), ("next", "lean")]

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, td):
        seen, start = td["observation"], td["is_init"]
        td["lean"] = torch.where(start, seen[:, 2:3], 0.5 * td["lean"] + seen[:, 2:3])
        td["next", "lean"] = td["lean"]
        with torch.no_grad():
            td["next", "memory"] = self.net.row(seen[:, None], start[:, None], td["memory"])[:, 0]
        td["action"] = nn.functional.one_hot((td["lean"][:, 0] > 0).long(), 2)
        return td


def make_env():
    env = TransformedEnv(SerialEnv(N, lambda: GymEnv("CartPole-v1")), InitTracker())
    states = {"memory": Unbounded((H,)), "lean": Unbounded((1,))}
    env.append_transform(TensorDictPrimer(states, default_value=0.0, expand_specs=True))
    return env


def loss_of(net, target, batch):
    seen, starts, h = batch["observation"], batch["is_init"], batch["memory"][:, 0]
    with torch.no_grad():
        warm = net.row(seen[:, :BURN], starts[:, :BURN], h)[:, -1]
        after = target.row(seen, starts, h).flatten(0, 1)
        follows = target.cell(batch["next", "observation"].flatten(0, 1)[:, ::2], after)
        best = target.head(follows).amax(-1).unflatten(0, seen.shape[:2]).unsqueeze(-1)
        wanted = batch["next", "reward"] + 0.95 * best * ~batch["next", "terminated"]
    q = net.head(net.row(seen[:, BURN:], starts[:, BURN:], warm))
    chosen = (q * batch["action"][:, BURN:]).sum(-1, keepdim=True)
    return (chosen - wanted[:, BURN:]).square().mean()


def main():
    torch.manual_seed(0)
    net = Net()
    target = copy.deepcopy(net).requires_grad_(False)
    taught = Collector(make_env(), Teacher(net), frames_per_batch=N * T, total_frames=2 * N * T)
    keys = ["observation", "is_init", "memory", "action", "next"]
    demos = torch.cat([data.select(*keys).exclude(("next", "lean")) for data in taught])
    optim, own = torch.optim.Adam(net.parameters(), 1e-3), []
    for data in Collector(make_env(), net, frames_per_batch=N * T, total_frames=10 * N * T):
        own.extend(data.select(*keys).exclude(("next", "lean")).unbind(0))
        for _ in range(2):
            mine = torch.stack([own[n] for n in torch.randint(len(own), (5,)).tolist()])
            batch = torch.cat([mine, demos[torch.randint(len(demos), (2,))]])
            loss = loss_of(net, target, batch)
            optim.zero_grad()
            loss.backward()
            optim.step()


main()
"""
