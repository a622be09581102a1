"""``rnncheck run``: whole episodes without states, some of them with another goal, which is theirs
from the start on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import judged

SCRIPT = """
import random

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule as Mod, TensorDictSequential as Seq
from torch import nn
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import Compose, EnvBase, InitTracker, TransformedEnv, step_mdp
from torchrl.modules import GRUModule, QValueModule, set_recurrent_mode

LONGEST, WIDTH = 10, 16


class Walk(EnvBase):
    def __init__(self):
        super().__init__(batch_size=[])
        self.observation_spec = Composite(observation=Unbounded((2,)), goal=Unbounded((2,)))
        self.action_spec = Categorical(4)
        self.reward_spec = Unbounded((1,))
        self.done_spec = Composite(
            done=Categorical(2, (1,), dtype=torch.bool),
            terminated=Categorical(2, (1,), dtype=torch.bool),
        )

    def shown(self, over, there, **more):
        flags = {"done": torch.tensor([over]), "terminated": torch.tensor([there])}
        seen = self.place + 0.01 * torch.rand(2)
        return TensorDict({"observation": seen, "goal": self.goal.clone(), **flags, **more}, [])

    def _reset(self, tensordict=None):
        self.place, self.goal = torch.rand(2).round(), 3 * torch.rand(2)
        self.left = random.randint(4, LONGEST)
        return self.shown(False, False)

    def _step(self, tensordict):
        way = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])[tensordict["action"]]
        self.place, self.left = self.place + 0.7 * way, self.left - 1
        there = bool((self.place - self.goal).norm() < 0.5)
        over = there or self.left == 0
        return self.shown(over, there, reward=torch.tensor([float(there) - 1.0]))

    def _set_seed(self, seed):
        torch.manual_seed(seed)


def play(env, net):
    steps, td = [], env.reset()
    keys = ["observation", "goal", "action", "is_init"]
    following = [("next", k) for k in ("observation", "reward", "done", "terminated")]
    while True:
        with torch.no_grad():
            td = net(td)
        if random.random() < 0.5:
            td["action"] = env.action_spec.rand()
        td = env.step(td)
        steps.append(td.select(*keys, *following).clone())
        if td["next", "done"].item():
            return torch.stack(steps)
        td = step_mdp(td)


def with_another_goal(episode):
    new = episode[: random.randint(1, len(episode))].clone()
    new["goal"] = new["next", "observation"][-1].expand(len(new), 2).clone()
    new["next", "terminated"][-1] = new["next", "done"][-1] = True
    return new


def drawn(memory, count):
    rows = []
    for episode in random.choices(memory, k=count):
        row = episode.clone()
        row["mask"] = torch.ones(len(row), dtype=torch.bool)
        left = torch.zeros_like(row[:1]).expand(LONGEST - len(row)).clone()
        rows.append(torch.cat([row, left]))
    return torch.stack(rows)


def loss_of(net, batch):
    steps = batch.select("observation", "goal")
    steps["is_init"] = torch.zeros_like(batch["is_init"])
    with set_recurrent_mode(True):
        values = net(steps)["action_value"]
    taken = values.gather(-1, batch["action"].unsqueeze(-1))
    gone = batch["next", "terminated"][:, :-1].float()
    wanted = batch["next", "reward"].clone()
    wanted[:, :-1] += 0.9 * (1 - gone) * values[:, 1:].detach().amax(-1, keepdim=True)
    mask = batch["mask"].clone()
    last = torch.cat([~mask[:, 1:], torch.ones_like(mask[:, :1])], 1)
    mask &= ~last | batch["next", "terminated"].squeeze(-1)  # a cut step has no next value here
    return ((taken - wanted).square().squeeze(-1) * mask).sum() / mask.sum()


def main():
    random.seed(0)
    torch.manual_seed(0)
    env = TransformedEnv(Walk(), InitTracker())
    net = Seq(
        Mod(lambda seen, goal: torch.cat([seen, goal], -1), ["observation", "goal"], ["both"]),
        Mod(nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU()), ["both"], ["x"]),
        GRUModule(input_size=WIDTH, hidden_size=WIDTH, in_keys=["x", "h"],
                  out_keys=["f", ("next", "h")]),
        Mod(nn.Linear(WIDTH, 4), ["f"], ["action_value"]),
        QValueModule(spec=env.action_spec, action_space="categorical"),
    )
    env.append_transform(net[2].make_tensordict_primer())
    optim, memory = torch.optim.Adam(net.parameters(), 1e-3), []
    for number in range(20):
        episode = play(env, net)
        memory += [episode, with_another_goal(episode)]
        if number > 6:
            loss = loss_of(net, drawn(memory, 12))
            optim.zero_grad()
            loss.backward()
            optim.step()


if __name__ == "__main__":
    main()
"""
LATE = (
    "        row = episode.clone()\n",
    "        row = episode[len(episode) // 3 :].clone()\n",
)


def test_no_state_is_missing_where_rows_begin_with_episodes(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "RP503", SCRIPT) == (ExitCode.VERIFIED, [])


def test_the_rest_of_an_episode_lacks_its_state(rnncheck: Any, tmp_path: Path) -> None:
    assert judged(rnncheck, tmp_path, "RP503", SCRIPT, LATE) == (ExitCode.FAILED, ["RP503"])
