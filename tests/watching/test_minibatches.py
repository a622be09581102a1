"""``rnncheck run``: an object that trains on parts of what was collected, one update after the
other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run

AGENT = """
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, TransformedEnv
from torchrl.modules import GRUModule, ProbabilisticActor, set_recurrent_mode

torch.manual_seed(4)
memory = GRUModule(input_size=4, hidden_size=12, in_key="observation", out_key="embed")
policy = TensorDictSequential(
    memory,
    ProbabilisticActor(
        TensorDictModule(nn.Linear(12, 2), ["embed"], ["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
    ),
)


def previous(value, start):
    moved = torch.cat([value[:, :1], value[:, :-1]], 1)
    return torch.where(start, value, moved)


class Learner:
    def __init__(self, policy):
        self.policy = policy
        self.optim = torch.optim.Adam(policy.parameters(), lr=1e-3)

    def train(self, batch):
        reward, done = batch["next", "reward"], batch["next", "done"]
        found, after = [], torch.zeros_like(reward[:, 0])
        for step in reversed(range(reward.shape[1])):
            after = reward[:, step] + 0.9 * after * (~done[:, step])
            found.append(after)
        gain = torch.stack(found[::-1], 1)
        batch.set("gain", (gain - gain.mean()) / gain.std())
        for _ in range(2):
            mixed = batch[torch.randperm(len(batch))]
            for part in mixed.split(batch.shape[1] // 2, 1):
                self.update(part)

    def update(self, part):
        with set_recurrent_mode(True):
            self.policy[0](part)
        now = self.policy[1].get_dist(part).log_prob(part["action"])
        ratio = (now - part["action_log_prob"]).exp().unsqueeze(-1)
        gain = part["gain"]
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


def make():
    env = SerialEnv(8, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))
    env = TransformedEnv(env, Compose(InitTracker()))
    return env.append_transform(memory.make_tensordict_primer())


learner = Learner(policy)
for batch in Collector(make, policy, frames_per_batch=256, total_frames=2560):
    learner.train(batch)
"""
BEFORE = ('gain = part["gain"]', 'gain = previous(part["gain"], part["is_init"])')
ON = ("after * (~done[:, step])", "after")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param((BEFORE,), (ExitCode.FAILED, ["LS707"]), id="the step before's advantage"),
        pytest.param(
            (ON,), (ExitCode.FAILED, ["VL601"]), id="returns run on", marks=pytest.mark.slow
        ),
    ],
)
def test_parts_of_a_batch_are_what_is_trained_on(
    rnncheck: Any,
    tmp_path: Path,
    changes: tuple[tuple[str, str], ...],
    expected: tuple[int, list[str]],
) -> None:
    """Statistics of the whole batch, and updates between its parts, are no leaks."""
    text = AGENT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "train.py").write_text(text)
    options = ["--select", "LS701", "--select", "LS707", "--select", "VL601"]
    ended, told, _ = run(rnncheck, *options, tmp_path / "train.py")
    assert (ended, failed(told)) == expected
