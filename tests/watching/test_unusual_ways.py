"""``rnncheck run``: ways to train that are right and less usual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

# A rule with a memory of its own labels what a student acts.
TAUGHT = """
import torch
from tensordict.nn import TensorDictModule as Mod, TensorDictModuleBase, TensorDictSequential as Seq
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer, Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TensorDictPrimer
from torchrl.envs import TransformedEnv
from torchrl.modules import GRUModule, set_recurrent_mode

WIDTH = 16


class Teacher(TensorDictModuleBase):
    in_keys = ["observation", "note", "is_init"]
    out_keys = ["label", ("next", "note")]

    def forward(self, td):
        seen = td["observation"][..., 2:3]
        note = torch.where(td["is_init"], seen, 0.5 * td["note"] + seen)
        td["label"] = (note.squeeze(-1) > 0).long()
        td["next", "note"] = note
        return td


def main():
    torch.manual_seed(0)
    gru = GRUModule(input_size=4, hidden_size=WIDTH, in_keys=["observation", "h"],
                    out_keys=["feature", ("next", "h")])
    student = Seq(gru, Mod(nn.Linear(WIDTH, 2), ["feature"], ["logits"]))
    choose = Mod(lambda logits: torch.distributions.Categorical(logits=logits).sample(),
                 ["logits"], ["action"])

    def make_env():
        env = GymEnv("CartPole-v1", categorical_action_encoding=True)
        note = TensorDictPrimer({"note": Unbounded((1,))}, default_value=0.0, expand_specs=True)
        primer = gru.make_tensordict_primer()
        return TransformedEnv(env, Compose(InitTracker(), StepCounter(20), primer, note))

    acting = Seq(Teacher(), student, choose)
    optim = torch.optim.Adam(student.parameters(), 1e-3)
    env = SerialEnv(3, make_env)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(30), batch_size=3)
    for data in Collector(env, acting, frames_per_batch=60, total_frames=480):
        buffer.extend(data.select("observation", "is_init", "label", "h"))
        batch = buffer.sample()
        with set_recurrent_mode(True):
            logits = student(batch)["logits"]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["label"].flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()


if __name__ == "__main__":
    main()
"""
STATE_LOST = ('"label", "h")', '"label")')

# The rows are weighed by their places in the batch.
WEIGHED = (
    (
        "def main():",
        """def loss_of(student, batch, weight):
    with set_recurrent_mode(True):
        logits = student(batch)["logits"]
    errors = nn.functional.cross_entropy(logits.movedim(-1, 1), batch["label"], reduction="none")
    return (errors.mean(1) * weight).mean()


def main():""",
    ),
    (
        """        with set_recurrent_mode(True):
            logits = student(batch)["logits"]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["label"].flatten())
""",
        "        loss = loss_of(student, batch, torch.tensor([1.0, 2.0, 0.5]))\n",
    ),
)
# Acts in eval mode and trains with dropout; an actor's head is trained on a detached memory.
ENCODED = """
import torch
from tensordict.nn import TensorDictModuleBase
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, StepCounter, TensorDictPrimer
from torchrl.envs import TransformedEnv

WIDTH = 16


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.drop = nn.GRUCell(4, WIDTH), nn.Dropout(0.1)
        self.value, self.actor = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 2)


class Acting(TensorDictModuleBase):
    in_keys = ["observation", "h", "is_init"]
    out_keys = ["action", "logits", ("next", "h")]

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, td):
        h = self.net.cell(td["observation"], td["h"] * ~td["is_init"])
        td["logits"] = self.net.actor(self.net.drop(h))
        td["action"] = torch.distributions.Categorical(logits=td["logits"]).sample()
        td["next", "h"] = h
        return td


def unroll(net, batch):
    h, found = batch["h"][:, 0], []
    for t in range(batch.shape[1]):
        h = net.cell(batch["observation"][:, t], h * ~batch["is_init"][:, t])
        found.append(h)
    return torch.stack(found, 1)


class Agent:
    def __init__(self, net):
        self.net = net
        critic = [*net.cell.parameters(), *net.value.parameters()]
        self.critic_optim = torch.optim.Adam(critic, 1e-3)
        self.actor_optim = torch.optim.Adam(net.actor.parameters(), 1e-3)

    def update(self, batch):
        net = self.net
        memory = unroll(net, batch)
        values = net.value(memory).gather(-1, batch["action"].unsqueeze(-1))
        loss = (values - batch["next", "reward"]).square().mean()
        self.critic_optim.zero_grad()
        loss.backward()
        self.critic_optim.step()
        logits = net.actor(net.drop(memory.detach())).log_softmax(-1)
        chosen = logits.gather(-1, batch["action"].unsqueeze(-1))
        loss = -(chosen * (batch["next", "reward"] - 0.5)).mean()
        self.actor_optim.zero_grad()
        loss.backward()
        self.actor_optim.step()


def main():
    torch.manual_seed(0)
    net = Net()
    agent, acting = Agent(net), Acting(net)

    def make_env():
        env = GymEnv("CartPole-v1", categorical_action_encoding=True)
        state = TensorDictPrimer({"h": Unbounded((WIDTH,))}, default_value=0.0, expand_specs=True)
        return TransformedEnv(env, Compose(InitTracker(), StepCounter(20), state))

    env = SerialEnv(3, make_env)
    for _ in range(6):
        acting.eval()
        with torch.no_grad():
            data = env.rollout(24, acting, break_when_any_done=False)
        net.train()
        agent.update(data)


if __name__ == "__main__":
    main()
"""
NO_DROPOUT = ("nn.Dropout(0.1)", "nn.Dropout(0.0)")
ALWAYS_DROPS = ("        acting.eval()\n", "")
CUT_AT_EVERY_STEP = ("found.append(h)", "found.append(h)\n        h = h.detach()")


def test_a_teachers_memory_is_no_lost_state(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "RP503", TAUGHT) == (ExitCode.VERIFIED, [])


def test_the_students_is(rnncheck: Any, tmp_path: Path) -> None:
    given = judged(rnncheck, tmp_path, "RP503", TAUGHT, STATE_LOST)
    assert given == (ExitCode.FAILED, ["RP503"])


def test_weights_by_the_place_of_a_row_are_named(rnncheck: Any, tmp_path: Path) -> None:
    given = judged(rnncheck, tmp_path, "LS704", TAUGHT, *WEIGHED)
    assert given == (ExitCode.FAILED, ["LS704"])


def test_dropout_in_training_alone_is_left_alone(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "EQ206", ENCODED) == (ExitCode.VERIFIED, [])


def test_an_actor_may_be_trained_on_a_detached_memory(rnncheck: Any, tmp_path: Path) -> None:
    """Its critic trains that."""
    given = judged(rnncheck, tmp_path, "EQ205", ENCODED, NO_DROPOUT)
    assert given == (ExitCode.VERIFIED, [])


def test_dropout_while_acting_is_named(rnncheck: Any, tmp_path: Path) -> None:
    given = judged(rnncheck, tmp_path, "EQ206", ENCODED, ALWAYS_DROPS)
    assert given == (ExitCode.FAILED, ["EQ206"])


@pytest.mark.slow
def test_a_memory_that_is_cut_at_every_step_is_named(rnncheck: Any, tmp_path: Path) -> None:
    given = judged(rnncheck, tmp_path, "EQ205,GR801", ENCODED, CUT_AT_EVERY_STEP)
    assert given[0] == ExitCode.FAILED
