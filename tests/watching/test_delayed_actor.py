"""``rnncheck run``: a recurrent TD3 whose actor is trained at every second update, behind a pass of
its own that is detached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import copy

import torch
from tensordict.nn import TensorDictModule as Mod, TensorDictSequential as Seq
from torch import nn
from torch.nn import functional as F
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer, Unbounded
from torchrl.envs import (
    Compose, GymEnv, InitTracker, RewardScaling, StepCounter, Transform, TransformedEnv,
)
from torchrl.modules import AdditiveGaussianModule, GRUModule, MLP, set_recurrent_mode


class Trainer:
    hidden = 32
    gamma = 0.98
    tau = 0.02
    slice_len = 10

    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.gru = GRUModule(input_size=2, hidden_size=self.hidden, in_keys=["pos", "rs"],
                             out_keys=["belief", ("next", "rs")])
        self.mu = MLP(in_features=self.hidden, out_features=1, num_cells=[32])
        self.q = nn.ModuleList(
            [MLP(in_features=self.hidden + 1, out_features=1, num_cells=[32]) for _ in range(2)]
        )
        nets = self.gru, self.mu, self.q
        self.gru_t, self.mu_t, self.q_t = (copy.deepcopy(m).requires_grad_(False) for m in nets)
        self.env = self.make_env()
        self.env.set_seed(seed)
        act = Mod(nn.Sequential(self.mu, nn.Tanh()), ["belief"], ["action_"])
        scale = Mod(lambda a: 2 * a, ["action_"], ["action"])
        self.policy = Seq(self.gru, act, scale)
        noise = AdditiveGaussianModule(
            spec=self.env.action_spec, sigma_init=0.3, sigma_end=0.1, annealing_num_steps=1000
        )
        self.behaviour = Seq(self.policy, noise)
        self.opt_q = torch.optim.Adam([*self.gru.parameters(), *self.q.parameters()], 1e-3)
        self.opt_pi = torch.optim.Adam(self.mu.parameters(), 1e-3)
        self.rb = TensorDictReplayBuffer(
            storage=LazyTensorStorage(3000),
            sampler=SliceSampler(
                slice_len=self.slice_len, end_key=("next", "done"), strict_length=True
            ),
            batch_size=16 * self.slice_len)
        self.collector = Collector(
            self.env, self.behaviour, frames_per_batch=100, total_frames=1000
        )
        self.n = 0

    def make_env(self):
        env = GymEnv("Pendulum-v1")

        class DropVelocity(Transform):
            def __init__(self):
                super().__init__(in_keys=["observation"], out_keys=["pos"])

            def _apply_transform(self, obs):
                return obs[..., :2].clone()

            def _reset(self, tensordict, tensordict_reset):
                return self._call(tensordict_reset)

            def transform_observation_spec(self, spec):
                spec["pos"] = Unbounded((*spec.shape, 2))
                return spec

        primer = self.gru.make_tensordict_primer()
        scaling = RewardScaling(0.0, 0.1)
        return TransformedEnv(
            env, Compose(DropVelocity(), InitTracker(), StepCounter(45), scaling, primer)
        )

    def encode(self, gru, td):
        with set_recurrent_mode(True):
            out = gru(td.select("pos", "rs", "is_init"))
        return out["belief"]

    def next_belief(self, gru, td):
        last = td["next"][:, -1:].select("pos", "rs")
        last = last.set("is_init", torch.zeros_like(td["is_init"][:, -1:]))
        seq = torch.cat([td.select("pos", "rs", "is_init"), last], 1)
        with set_recurrent_mode(True):
            return gru(seq)["belief"][:, 1:]

    def update(self):
        td = self.rb.sample().reshape(-1, self.slice_len)
        with torch.no_grad():
            zn = self.next_belief(self.gru_t, td)
            an = torch.tanh(self.mu_t(zn)) * 2
            an = (an + 0.2 * torch.randn_like(an).clamp(-0.5, 0.5)).clamp(-2, 2)
            qn = torch.min(*[q(torch.cat([zn, an], -1)) for q in self.q_t])
            y = td["next", "reward"] + self.gamma * (~td["next", "terminated"]).float() * qn
        z = self.encode(self.gru, td)
        loss_q = sum(F.mse_loss(q(torch.cat([z, td["action"]], -1)), y) for q in self.q)
        self.opt_q.zero_grad()
        loss_q.backward()
        self.opt_q.step()
        self.n += 1
        if self.n % 2 == 0:
            zd = self.encode(self.gru, td).detach()
            loss_pi = -self.q[0](torch.cat([zd, torch.tanh(self.mu(zd)) * 2], -1)).mean()
            self.opt_pi.zero_grad()
            loss_pi.backward()
            self.opt_pi.step()
        with torch.no_grad():
            pairs = (self.gru, self.gru_t), (self.mu, self.mu_t), (self.q, self.q_t)
            for m, t in pairs:
                for w, wt in zip(m.parameters(), t.parameters()):
                    wt.lerp_(w, self.tau)
        return loss_q.item()

    def train(self):
        for i, data in enumerate(self.collector):
            self.rb.extend(data.reshape(-1))
            self.behaviour[-1].step(data.numel())
            if i >= 1:
                print(i, [round(self.update(), 3) for _ in range(2)])
        self.collector.shutdown()


if __name__ == "__main__":
    Trainer().train()
"""


@pytest.mark.slow
def test_its_passes_all_remember(rnncheck: Any, tmp_path: Path) -> None:
    """Though one of them shows some steps several times, and others none of what comes before."""
    assert judged(rnncheck, tmp_path, "LS703", SCRIPT) == (ExitCode.VERIFIED, [])


def test_one_that_takes_each_step_alone_is_named(rnncheck: Any, tmp_path: Path) -> None:
    alone = ("with set_recurrent_mode(True):\n            out =", "if True:\n            out =")
    ended, found = judged(rnncheck, tmp_path, "LS703", SCRIPT, alone)
    assert (ended, found) == (ExitCode.FAILED, ["LS703"])
