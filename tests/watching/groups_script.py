"""A loop over groups of agents, each with a loss and an optimiser of its own."""

from __future__ import annotations

GROUPS = """
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule as Mod, TensorDictModuleBase, TensorDictSequential as Seq
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import (
    Compose, EnvBase, InitTracker, StepCounter, TensorDictPrimer, TransformedEnv,
)
from torchrl.objectives.value.functional import generalized_advantage_estimate

GROUPS = {"hunters": 2, "scouts": 3}
N, T, D, H = 4, 16, 3, 12


class Field(EnvBase):
    # Each agent now and then sees a target of its own, and is paid for its sign.

    def __init__(self, n=N):
        super().__init__(batch_size=torch.Size([n]))

        def spec(name, make):
            each = {g: Composite({name: make(a)}, shape=(n, a)) for g, a in GROUPS.items()}
            return Composite(each, shape=(n,))

        self.observation_spec = spec("observation", lambda a: Unbounded((n, a, D)))
        self.action_spec = spec("action", lambda a: Categorical(2, shape=(n, a)))
        self.reward_spec = spec("reward", lambda a: Unbounded((n, a, 1)))
        self.target = {g: torch.randn(n, a) for g, a in GROUPS.items()}

    def _obs(self):
        out = {}
        for g, a in GROUPS.items():
            seen = (torch.rand(self.batch_size[0], a) < 0.4).float()
            shown = torch.stack([seen * self.target[g], seen, torch.randn_like(seen)], -1)
            out[g] = TensorDict({"observation": shown}, [self.batch_size[0], a])
        return out

    def _reset(self, tensordict=None):
        n = self.batch_size[0]
        m = torch.ones(n, 1, dtype=torch.bool)
        if tensordict is not None and "_reset" in tensordict.keys():
            m = tensordict["_reset"].view(-1, 1)
        for g, a in GROUPS.items():
            self.target[g] = torch.where(m, torch.randn(n, a), self.target[g])
        return TensorDict(self._obs(), self.batch_size)

    def _step(self, td):
        rew = {}
        for g in GROUPS:
            sign = (self.target[g] > 0).long()
            rew[g] = (td[g, "action"] == sign).float().unsqueeze(-1)
        out = TensorDict(self._obs(), self.batch_size)
        for g in GROUPS:
            out[g, "reward"] = rew[g]
        out["terminated"] = torch.rand(self.batch_size[0], 1) < 0.12
        out["done"] = out["terminated"].clone()
        return out

    def _set_seed(self, seed):
        torch.manual_seed(seed)


class GroupGRU(TensorDictModuleBase):
    # [B, A, D] is a step, [B, T, A, D] a sequence.

    def __init__(self, group):
        super().__init__()
        self.g = group
        self.in_keys = [(group, "observation"), (group, "h"), "is_init"]
        self.out_keys = [(group, "feat"), ("next", group, "h")]
        self.cell = nn.GRUCell(D, H)

    def step(self, x, h, init):
        h = h * (~init).unsqueeze(-1).float()
        return self.cell(x.flatten(0, -2), h.flatten(0, -2)).view(h.shape)

    def forward(self, td):
        x, h, init = td[self.g, "observation"], td[self.g, "h"], td["is_init"]
        if x.ndim == 3:
            h = self.step(x, h, init)
            td[self.g, "feat"], td["next", self.g, "h"] = h, h
            return td
        out, h = [], h[:, 0]
        for t in range(x.shape[1]):
            h = self.step(x[:, t], h, init[:, t])
            out.append(h)
        td[self.g, "feat"] = torch.stack(out, 1)
        return td


class Act(TensorDictModuleBase):
    def __init__(self, group):
        super().__init__()
        self.g = group
        self.pi, self.v = nn.Linear(H, 2), nn.Linear(H, 1)
        self.in_keys = [(group, "feat")]
        self.out_keys = [(group, "action"), (group, "logp")]

    def dist(self, td):
        return torch.distributions.Categorical(logits=self.pi(td[self.g, "feat"]))

    def forward(self, td):
        d = self.dist(td)
        a = d.sample()
        td[self.g, "action"], td[self.g, "logp"] = a, d.log_prob(a)
        return td


def last_values(rnn, head, data):
    g = rnn.g
    x, h = data["next", g, "observation"][:, -1], data["next", g, "h"][:, -1]
    no_reset = torch.zeros_like(data["is_init"][:, -1])
    return head.v(rnn.step(x, h, no_reset))


def main():
    torch.manual_seed(0)
    states = {g: Composite(h=Unbounded((N, a, H)), shape=(N, a)) for g, a in GROUPS.items()}
    primer = TensorDictPrimer(Composite(states, shape=(N,)), default_value=0.0)
    env = TransformedEnv(Field(), Compose(InitTracker(), StepCounter(), primer))
    rnns = nn.ModuleDict({g: GroupGRU(g) for g in GROUPS})
    heads = nn.ModuleDict({g: Act(g) for g in GROUPS})
    policy = Seq(*[m for g in GROUPS for m in (rnns[g], heads[g])])
    optims = {
        g: torch.optim.Adam([*rnns[g].parameters(), *heads[g].parameters()], 3e-3) for g in GROUPS
    }
    collector = Collector(env, policy, frames_per_batch=N * T, total_frames=N * T * 6)
    for it, data in enumerate(collector):
        done = data["next", "done"].unsqueeze(-2)
        term = data["next", "terminated"].unsqueeze(-2)
        for g, a in GROUPS.items():
            for epoch in range(2):
                td = rnns[g](data.select((g, "observation"), (g, "h"), "is_init"))
                v = heads[g].v(td[g, "feat"])
                with torch.no_grad():
                    last = last_values(rnns[g], heads[g], data).unsqueeze(1)
                    v_next = torch.cat([v[:, 1:], last], 1)
                    reward, ends = data["next", g, "reward"], (done, term)
                    adv, target = generalized_advantage_estimate(
                        0.95, 0.9, v, v_next, reward, *(one.expand_as(v) for one in ends),
                        time_dim=1,
                    )
                dist = heads[g].dist(td)
                ratio = (dist.log_prob(data[g, "action"]) - data[g, "logp"]).exp().unsqueeze(-1)
                pg = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
                loss = pg + 0.5 * (v - target).pow(2).mean() - 0.01 * dist.entropy().mean()
                optims[g].zero_grad()
                loss.backward()
                optims[g].step()
        print(it, {g: round(data["next", g, "reward"].mean().item(), 3) for g in GROUPS})
    collector.shutdown()


if __name__ == "__main__":
    main()
"""
