"""``rnncheck run``: habits of public code, on scripts that have them, and with a fault in these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import OTHERS, judged, run, written
from tests.watching.scripts import failed as failed_in
from tests.watching.scripts import judged_other as judged_file

Change = tuple[str, str]

# Envs that begin by themselves and are never reset, and one network under two names.
NEVER_RESET = (
    ("obs = self.env.reset()", "obs = self.env.get_observations()"),
    (
        "torch.zeros(num_envs, 2), torch.zeros(num_envs, dtype=torch.long)\n",
        "torch.rand(num_envs, 2) - 0.5, torch.zeros(num_envs, dtype=torch.long)\n",
    ),
    (
        "self.actor_critic, self.storage = actor_critic, None",
        "self.actor_critic, self.storage, self._raw = actor_critic, None, actor_critic",
    ),
)
ONE_MEMORY_KEPT = ("        self.memory_c.reset(dones)\n", "")
VALUE_FROM_ZEROS = (
    "        last_values = self.actor_critic.evaluate(last_obs)",
    "        self.actor_critic.memory_c.hidden_states = tuple(map(torch.zeros_like, keep))\n"
    "        last_values = self.actor_critic.evaluate(last_obs)",
)
KEPT_STATE = (
    ("state, hidden, done = torch.Tensor(env.reset(seed=e)), None, False",
     "state, done = torch.Tensor(env.reset(seed=e)), False"),
    ("memory, epsilon, steps = Memory(100), 1.0, 0",
     "memory, epsilon, steps, hidden = Memory(100), 1.0, 0, None"),
)  # fmt: skip
OF_THE_STEP = ("target_net(whole)[0][:, 1:]", "target_net(whole)[0][:, :-1]")

TARGET_ACTS = ("get_action(state, online_net, epsilon", "get_action(state, target_net, epsilon")

PAID_BY_PLACE = ("return obs[[0, 2]], reward,", "return obs[[0, 2]], float(abs(obs[0]) + obs[1]),")
WHOLE = "        whole = torch.cat([states"
NORMALISED = f"        rewards = (rewards - rewards.mean(0)) / (rewards.std(0) + 1e-6)\n{WHOLE}"
LESS_ANOTHERS = f"        rewards = rewards - rewards.roll(1, 0)\n{WHOLE}"

OWN_VECTOR = '''
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical


class ParallelEnv(gym.Env):
    """One env, side by side with none; with more of them the others would be in processes."""

    def __init__(self, envs):
        self.envs = envs
        self.observation_space, self.action_space = envs[0].observation_space, envs[0].action_space

    def reset(self):
        return [self.envs[0].reset(seed=1)[0]]

    def step(self, actions):
        obs, reward, terminated, truncated, info = self.envs[0].step(actions[0])
        if terminated or truncated:
            obs, _ = self.envs[0].reset()
        return zip(*[(obs, reward, terminated, truncated, info)])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.actor, self.critic = nn.LSTMCell(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, obs, memory):
        hidden = self.rnn(obs, (memory[:, :8], memory[:, 8:]))
        dist = Categorical(logits=self.actor(hidden[0]))
        return dist, self.critic(hidden[0]).squeeze(1), torch.cat(hidden, dim=1)


class Algo:
    T, recurrence, discount = 64, 8, 0.97

    def __init__(self, env):
        self.env, self.model = ParallelEnv([env]), Model()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3)
        self.obs, self.memory, self.mask = self.env.reset(), torch.zeros(1, 16), torch.ones(1)
        self.memories, self.masks = torch.zeros(self.T, 1, 16), torch.zeros(self.T, 1)
        self.actions = torch.zeros(self.T, 1, dtype=torch.int)
        self.rewards, self.values = torch.zeros(self.T, 1), torch.zeros(self.T, 1)

    def collect(self):
        obss = [None] * self.T
        for i in range(self.T):
            preprocessed = torch.tensor(self.obs[0]).unsqueeze(0)
            with torch.no_grad():
                dist, value, memory = self.model(preprocessed, self.memory * self.mask.unsqueeze(1))
            action = dist.sample()
            obs, reward, terminated, truncated, _ = self.env.step(action.cpu().numpy())
            done = tuple(a | b for a, b in zip(terminated, truncated))
            obss[i] = preprocessed
            self.obs = obs
            self.memories[i], self.memory = self.memory, memory
            self.masks[i], self.mask = self.mask, 1 - torch.tensor(done, dtype=torch.float)
            self.actions[i], self.values[i] = action, value
            self.rewards[i] = torch.tensor(reward)
        return torch.cat(obss)

    def update(self, obs):
        total, found = torch.zeros(1), []
        for i in reversed(range(self.T)):
            goes_on = self.masks[i + 1] if i < self.T - 1 else self.mask
            total = self.rewards[i] + self.discount * goes_on * total
            found.append(total)
        returns, loss = torch.cat(found[::-1]), 0
        inds = torch.arange(0, self.T, self.recurrence)
        memory = self.memories.reshape(self.T, 16)[inds]
        for i in range(self.recurrence):
            at = inds + i
            dist, value, memory = self.model(obs[at], memory * self.masks.reshape(-1, 1)[at])
            chosen = dist.log_prob(self.actions.reshape(-1)[at])
            gain = returns[at] - value
            loss += gain.square().mean() - (chosen * gain.detach()).mean()
        self.optimizer.zero_grad()
        (loss / self.recurrence).backward()
        self.optimizer.step()


torch.manual_seed(0)
algo = Algo(gym.make("CartPole-v1"))
for _ in range(8):
    algo.update(algo.collect())
'''
UNMASKED = ("memory * self.masks.reshape(-1, 1)[at])", "memory)")

RANDOM_FIRST = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.mean, self.v = nn.GRU(3, 12), nn.Linear(12, 1), nn.Linear(12, 1)

    def forward(self, x, last, h):
        y, h = self.gru(torch.cat([x, last], -1), h)
        return Normal(self.mean(y), 0.5), self.v(y), h

    @torch.no_grad()
    def act(self, x, last, h):
        x, last = torch.FloatTensor(x).view(1, 1, 2), torch.FloatTensor(last).view(1, 1, 1)
        dist, _, h = self(x, last, h)
        return dist.sample().numpy().reshape(1), h


torch.manual_seed(0)
env, agent = gym.make("Pendulum-v1", max_episode_steps=24), Agent()
env.action_space.seed(3)
optim = torch.optim.Adam(agent.parameters(), lr=1e-3)
for episode in range(16):
    obs, last = env.reset(seed=episode)[0], env.action_space.sample()
    h, over = torch.zeros(1, 1, 12), False
    xs, lasts, acts, rews = [], [], [], []
    while not over:
        action, h = agent.act(obs[:2], last, h)
        new, reward, terminated, truncated, _ = env.step(action)
        xs.append(obs[:2])
        lasts.append(last)
        acts.append(action)
        rews.append(float(reward))
        obs, last, over = new, action, terminated or truncated
    x = torch.FloatTensor(np.array(xs)).unsqueeze(1)
    before = torch.FloatTensor(np.array(lasts)).unsqueeze(1)
    dist, value, _ = agent(x, before, torch.zeros(1, 1, 12))
    total, found = 0.0, []
    for reward in reversed(rews):
        total = reward + 0.9 * total
        found.append(total)
    gain = torch.tensor(found[::-1]).view(-1, 1, 1) / 50 - value
    chosen = dist.log_prob(torch.FloatTensor(np.array(acts)).unsqueeze(1))
    loss = gain.square().mean() - (chosen * gain.detach()).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
EMPTY_ARRAY = (
    ("optim = torch.optim", "nothing = np.zeros((0, 3))\noptim = torch.optim"),
    ("    loss = gain.square()", "    loss = float(nothing.sum()) + gain.square()"),
)
# An object that looks like an env by its methods, and acts.
LEARNER = (
    (
        "torch.manual_seed(0)\n",
        "class Learner:\n"
        "    def __init__(self, net):\n"
        "        self.net = net\n\n"
        "    def reset(self):\n"
        "        pass\n\n"
        "    def step(self):\n"
        "        optim.step()\n\n"
        "    def act(self, x, last, h):\n"
        "        x, last = np.asarray(x, np.float32), np.asarray(last, np.float32)\n"
        "        return self.net.act(x, last, h)\n\n\n"
        "torch.manual_seed(0)\n",
    ),
    ("env.action_space.seed(3)\n", "env.action_space.seed(3)\nlearner = Learner(agent)\n"),
    ("action, h = agent.act(", "action, h = learner.act("),
    ("loss.backward()\n    optim.step()", "loss.backward()\n    learner.step()"),
)
OF_THE_ACTION = (
    "before = torch.FloatTensor(np.array(lasts))",
    "before = torch.FloatTensor(np.array(acts))",
)


@pytest.mark.parametrize(
    ("change", "codes", "failed"),
    [
        pytest.param((), "CL402,EQ201,RP507", [], id="healthy"),
        pytest.param((ONE_MEMORY_KEPT,), "BD307,CL403", ["CL403"], id="one memory is not reset"),
    ],
)
def test_an_env_that_begins_by_itself(
    rnncheck: Any, tmp_path: Path, change: tuple[Change, ...], codes: str, failed: list[str]
) -> None:
    """What it shows first is asked for by another method, and a network has two names."""
    found = judged_file(rnncheck, tmp_path, "padded_trajectories", codes, *NEVER_RESET, *change)
    assert found[0] == (ExitCode.FAILED if failed else ExitCode.VERIFIED)
    assert set(failed) <= set(found[1]) and bool(failed) == bool(found[1])


def test_a_value_that_goes_on_from_a_state_in_the_network(rnncheck: Any, tmp_path: Path) -> None:
    """As acting left it there: no entry of the batch says so. From zeros it is another one."""
    name, codes = "padded_trajectories", "LS704,VL604"
    assert judged_file(rnncheck, tmp_path, name, codes, *NEVER_RESET) == (ExitCode.VERIFIED, [])
    text = (OTHERS / f"{name}.py").read_text()
    path = written(tmp_path, text, *NEVER_RESET, VALUE_FROM_ZEROS)
    code, told, _ = run(rnncheck, "--select", "VL604", path)
    assert code != ExitCode.VERIFIED
    assert told["checks"][0]["outcome"] != "passed"


@pytest.mark.parametrize(
    ("change", "codes", "failed"),
    [
        pytest.param((), "CL403,EQ201,LS701,VL603,VL604", [], id="healthy"),
        pytest.param(KEPT_STATE, "CL403", ["CL403"], id="the state goes on behind an episode"),
        pytest.param((OF_THE_STEP,), "VL604", ["VL604"], id="values of the step itself"),
    ],
)
def test_a_batch_of_lists_of_rows(
    rnncheck: Any, tmp_path: Path, change: tuple[Change, ...], codes: str, failed: list[str]
) -> None:
    """In a wrapper of an older gym's, which leaves the space as it was."""
    found = judged_file(rnncheck, tmp_path, "listed_rows", codes, *change)
    assert found == (ExitCode.FAILED if failed else ExitCode.VERIFIED, failed)


@pytest.mark.parametrize(
    ("rewards", "failed"),
    [
        pytest.param(NORMALISED, [], id="normalised over the rows"),
        pytest.param(LESS_ANOTHERS, ["LS701"], id="those of another row"),
    ],
)
def test_rewards_that_rows_share_step_by_step(
    rnncheck: Any, tmp_path: Path, rewards: str, failed: list[str]
) -> None:
    """Each step's are less their mean, over their deviation: nothing runs on to a next step."""
    changes = PAID_BY_PLACE, (WHOLE, rewards)
    found = judged_file(rnncheck, tmp_path, "listed_rows", "LS701", *changes)
    assert found == (ExitCode.FAILED if failed else ExitCode.VERIFIED, failed)


def test_a_target_network_acts(rnncheck: Any, tmp_path: Path) -> None:
    """It has the weights of the one that is trained until that is stepped, and is judged by it."""
    text = (OTHERS / "listed_rows.py").read_text()
    path = written(tmp_path, text, TARGET_ACTS)
    code, told, _ = run(rnncheck, "--select", "CL403,EQ201,LS701,VL604", path)
    assert (code, failed_in(told)) == (ExitCode.VERIFIED, [])
    assert "who acts is a copy of the network that is trained" in str(told)
    path = written(tmp_path, text, TARGET_ACTS, OF_THE_STEP)
    code, told, _ = run(rnncheck, "--select", "VL604", path)
    assert (code, failed_in(told)) == (ExitCode.FAILED, ["VL604"])


@pytest.mark.parametrize(
    ("change", "codes", "failed"),
    [
        pytest.param((), "CL402,CL403,LS701", [], id="healthy"),
        pytest.param((UNMASKED,), "LS701", ["LS701"], id="states are not masked in training"),
    ],
)
def test_lines_that_act_around_an_env_that_steps_another(
    rnncheck: Any, tmp_path: Path, change: tuple[Change, ...], codes: str, failed: list[str]
) -> None:
    """States are stored as the step before left them, and masked where they are used."""
    found = judged(rnncheck, tmp_path, codes, OWN_VECTOR, *change)
    assert found == (ExitCode.FAILED if failed else ExitCode.VERIFIED, failed)


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        pytest.param((), [], id="healthy"),
        pytest.param(EMPTY_ARRAY, [], id="an empty array beside"),
        pytest.param(LEARNER, [], id="by an object with reset and step"),
        pytest.param((OF_THE_ACTION,), ["EQ201"], id="the action of the step itself"),
    ],
)
def test_a_random_action_before_the_first(
    rnncheck: Any, tmp_path: Path, change: tuple[Change, ...], failed: list[str]
) -> None:
    """The agent binds what it is given anew, and is given a part of what the env shows."""
    found = judged(rnncheck, tmp_path, "CL402,EQ201", RANDOM_FIRST, *change)
    assert found == (ExitCode.FAILED if failed else ExitCode.VERIFIED, failed)
