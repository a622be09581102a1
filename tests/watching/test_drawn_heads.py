"""``rnncheck run``: an ensemble of heads, of which one acts for a whole episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

HEADS = """
import torch
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer, Unbounded
from torchrl.envs import GymEnv, InitTracker, SerialEnv, TensorDictPrimer, TransformedEnv

N, T, H, K = 3, 16, 10, 3


class Net(TensorDictModuleBase):
    in_keys = ["observation", "memory", "head", "is_init"]
    out_keys = ["action", "head", ("next", "memory"), ("next", "head")]

    def __init__(self):
        super().__init__()
        self.cell, self.heads = nn.GRUCell(2, H), nn.Linear(H, 2 * K)

    def worth(self, h):
        return self.heads(h).unflatten(-1, (K, 2))

    def forward(self, td):
        start = td["is_init"]
        h = self.cell(td["observation"][:, ::2], td["memory"] * ~start)
        head = torch.where(start, torch.randint(K, start.shape).float(), td["head"])
        q = self.worth(h).gather(-2, head.long().unsqueeze(-1).expand(*head.shape, 2)).squeeze(-2)
        td["action"], td["head"] = nn.functional.one_hot(q.argmax(-1), 2), head
        td["next", "memory"], td["next", "head"] = h, head
        return td

    def row(self, seen, starts, h):
        found = []
        for x, start in zip(seen.unbind(1), starts.unbind(1)):
            h = self.cell(x[:, ::2], h * ~start)
            found.append(h)
        return torch.stack(found, 1)


def loss_of(net, batch):
    q = net.worth(net.row(batch["observation"], batch["is_init"], batch["memory"][:, 0]))
    chosen = (q * batch["action"].unsqueeze(-2)).sum(-1)
    apart = (chosen - batch["next", "reward"]).square()
    return (apart * batch["counts"]).sum() / batch["counts"].sum()


def main():
    torch.manual_seed(0)
    net = Net()
    env = TransformedEnv(SerialEnv(N, lambda: GymEnv("CartPole-v1")), InitTracker())
    states = {"memory": Unbounded((H,)), "head": Unbounded((1,))}
    env.append_transform(TensorDictPrimer(states, default_value=0.0, expand_specs=True))
    optim = torch.optim.Adam(net.parameters(), 1e-3)
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(60), batch_size=4)
    for data in Collector(env, net, frames_per_batch=N * T, total_frames=20 * N * T):
        data["counts"] = torch.bernoulli(torch.full((N, T, K), 0.6))
        rb.extend(data)
        loss = loss_of(net, rb.sample())
        optim.zero_grad()
        loss.backward()
        optim.step()


main()
"""
EVERY_STEP = (
    "torch.where(start, torch.randint(K, start.shape).float(), td",
    "torch.where(start | True, torch.randint(K, start.shape).float(), td",
)
OF_REWARDS = ("torch.full((N, T, K), 0.6))", 'data["next", "reward"].expand(-1, -1, K) * 0.6)')


def test_the_head_and_what_it_counts_are_drawn_on_purpose(rnncheck: Any, tmp_path: Path) -> None:
    """Where an episode begins, and whatever the batch holds."""
    found = judged(rnncheck, tmp_path, "EQ206,RP505,VL601,VL603", HEADS)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("change", "codes", "expected"),
    [
        pytest.param(EVERY_STEP, "EQ206", (ExitCode.FAILED, ["EQ206"]), id="at every step"),
        pytest.param(OF_REWARDS, "VL601", (ExitCode.NOT_SHOWN, []), id="of what the batch holds"),
    ],
)
def test_what_is_drawn_otherwise_is_not_left_out(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], codes: str, expected: Any
) -> None:
    assert judged(rnncheck, tmp_path, codes, HEADS, change) == expected
