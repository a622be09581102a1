"""``rnncheck run``: a method that puts a collected batch into a memory of the user's own class, and
trains on rows that it draws out of it by their priorities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, judged, run, written

SCRIPT = """
import copy

import numpy as np
import torch
from tensordict.nn import TensorDictModule as Mod, TensorDictSequential as Seq
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import EGreedyModule, GRUModule, QValueModule, set_recurrent_mode

ENVS, STEPS, WIDTH = 4, 24, 16


def make_env(gru):
    env = TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True),
                         Compose(InitTracker(), StepCounter(40)))
    env.append_transform(gru.make_tensordict_primer())
    return env


class Memory:
    def __init__(self):
        self.rows, self.weights = [], []

    def add(self, rows, errors):
        self.rows += [row.clone() for row in rows.unbind(0)]
        self.weights += errors.tolist()

    def sample(self, count):
        chances = np.asarray(self.weights) ** 0.7
        chances = chances / chances.sum()
        index = np.random.choice(len(self.rows), count, p=chances)
        weight = (len(self.rows) * chances[index]) ** -0.5
        weight = torch.as_tensor(weight / weight.max(), dtype=torch.float32)
        return torch.stack([self.rows[n] for n in index]), index, weight

    def update(self, index, errors):
        for n, error in zip(index, errors.tolist()):
            self.weights[n] = error


class Learner:
    def __init__(self):
        self.gru = GRUModule(input_size=WIDTH, hidden_size=WIDTH, in_keys=["seen", "h"],
                             out_keys=["core", ("next", "h")])
        seen = Mod(nn.Sequential(nn.Linear(4, WIDTH), nn.ELU()), ["observation"], ["seen"])
        values = Mod(nn.Linear(WIDTH, 2), ["core"], ["action_value"])
        chosen = QValueModule(
            action_space="categorical",
            out_keys=["action", "action_value", "chosen_action_value"],
        )
        self.net = Seq(seen, self.gru, values, chosen)
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.optim = torch.optim.Adam(self.net.parameters(), 1e-3)
        self.memory = Memory()

    def errors(self, batch):
        keys = "observation", "h", "is_init"
        behind = batch[..., -1:]["next"].select(*keys)
        steps = torch.cat([batch.select(*keys), behind], 1)
        with set_recurrent_mode(True):
            value = self.net[:3](batch.select(*keys))["action_value"]
            with torch.no_grad():
                following = self.target[:3](steps)["action_value"][:, 1:].amax(-1, True)
        ended, cut = batch["next", "terminated"], batch["next", "done"]
        counts = (~cut | ended).float()  # behind a time limit stands the next episode
        wanted = batch["next", "reward"] + 0.97 * following * ~ended
        taken = value.gather(-1, batch["action"].unsqueeze(-1))
        return (taken - wanted) * counts, counts

    def learn(self, batch):
        with torch.no_grad():
            error, _ = self.errors(batch)
        self.memory.add(batch, error.abs().amax((1, 2)) + 1e-3)
        for _ in range(3):
            rows, index, weight = self.memory.sample(4)
            error, counts = self.errors(rows)
            loss = (weight.view(-1, 1, 1) * error.square()).sum() / counts.sum()
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            self.memory.update(index, error.detach().abs().amax((1, 2)) + 1e-3)


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    learner = Learner()
    greedy = EGreedyModule(spec=make_env(learner.gru).action_spec, eps_init=0.5)
    env = SerialEnv(ENVS, lambda: make_env(learner.gru))
    collector = Collector(env, Seq(learner.net, greedy), frames_per_batch=ENVS * STEPS,
                          total_frames=6 * ENVS * STEPS)
    for batch in collector:
        learner.learn(batch)


if __name__ == "__main__":
    main()
"""
OVER_ENDS = ("* following * ~ended", "* following")
FAULTS = {
    "the memory of the targets runs on": (
        "LS701",
        (
            "        with set_recurrent_mode(True):\n            value",
            '        steps["is_init"] = torch.zeros_like(steps["is_init"])\n'
            "        with set_recurrent_mode(True):\n            value",
        ),
    ),
    "rows begin with zeros": (
        "RP504",
        ("error, counts =", 'rows["h"] = 0 * rows["h"]\n            error, counts ='),
    ),
    "a target counts what comes behind an end": ("LS701", OVER_ENDS),
}


@pytest.mark.slow
def test_a_healthy_one_shows_all(rnncheck: Any, tmp_path: Path) -> None:
    ended, told, done = run(rnncheck, written(tmp_path, SCRIPT))
    assert (ended, failed(told)) == (ExitCode.VERIFIED, []), done.stderr
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


@pytest.mark.first(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(rnncheck: Any, tmp_path: Path, fault: str) -> None:
    code, change = FAULTS[fault]
    given = judged(rnncheck, tmp_path, code, SCRIPT, change)
    assert given == (ExitCode.FAILED, [code])


@pytest.mark.slow
def test_what_goes_back_over_an_end_is_told_from_a_memory(rnncheck: Any, tmp_path: Path) -> None:
    """A target has something of the next episode, and no start flag mends that."""
    _, told, _ = run(rnncheck, "--select", "LS701", written(tmp_path, SCRIPT, OVER_ENDS))
    fix = told["checks"][0]["findings"][0]["fix"]
    assert '(~batch["next", "terminated"])' in fix
