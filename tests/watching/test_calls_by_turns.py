"""``rnncheck run``: a loss that runs its memory step by step, by turns with what is seen next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

BY_TURNS = """import torch
from tensordict.nn import TensorDictModule as Mod
from tensordict.nn import TensorDictSequential as Seq
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv, InitTracker, StepCounter, TransformedEnv
from torchrl.modules import GRUModule, QValueModule

T = 10


def loss_of(gru, head, batch):
    h, here, after = batch["recurrent_state"][:, 0], [], []
    for now in batch.select("observation", "is_init", "next").unbind(1):
        one = gru(now.select("observation", "is_init").set("recurrent_state", h))
        h = one["next", "recurrent_state"]
        here.append(head(one["embed"]))
        peek = now["next"].select("observation").set("is_init", torch.zeros_like(now["is_init"]))
        after.append(head(gru(peek.set("recurrent_state", h.detach()))["embed"]).detach())
    q = (torch.stack(here, 1) * batch["action"]).sum(-1, keepdim=True)
    best = torch.stack(after, 1).amax(-1, keepdim=True)
    wanted = batch["next", "reward"] + 0.9 * best * ~batch["next", "terminated"]
    return (q - wanted).square().mean()


def main():
    torch.manual_seed(0)
    gru = GRUModule(input_size=4, hidden_size=8, in_key="observation", out_key="embed")
    head = nn.Linear(8, 2)
    policy = Seq(gru, Mod(head, ["embed"], ["action_value"]), QValueModule(action_space="one-hot"))
    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter(15))
    env.append_transform(InitTracker())
    env.append_transform(gru.make_tensordict_primer())
    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(200), batch_size=6)
    optim = torch.optim.Adam(policy.parameters(), 1e-3)
    for data in Collector(
        env, policy, frames_per_batch=2 * T, total_frames=20 * T, init_random_frames=4 * T
    ):
        rb.extend(data.reshape(-1, T))
        if len(rb) < 8:
            continue
        loss = loss_of(gru, head, rb.sample())
        optim.zero_grad()
        loss.backward()
        optim.step()


main()
"""
CLEARED = (
    'one = gru(now.select("observation", "is_init")',
    'one = gru(now.select("observation").set("is_init", torch.zeros_like(now["is_init"]))',
)
FROM_ZERO = ('set("recurrent_state", h.detach())', 'set("recurrent_state", torch.zeros_like(h))')


def test_it_may_begin_with_random_frames(rnncheck: Any, tmp_path: Path) -> None:
    """Nothing writes a state at these: what the loss carries there is right all the same."""
    found = judged(rnncheck, tmp_path, "LS701,RP507,VL604", BY_TURNS)
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(CLEARED, "LS701", id="no start is cleared"),
        pytest.param(FROM_ZERO, "VL604", id="what is seen next has no memory"),
    ],
)
def test_each_pass_is_judged(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], code: str
) -> None:
    assert judged(rnncheck, tmp_path, code, BY_TURNS, change) == (ExitCode.FAILED, [code])
