"""``rnncheck run``: rollouts of several episodes, of each of which lists hold one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.stretches import episode_lists
from tests.watching.scripts import judged

EPISODES = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn.utils.rnn import pad_sequence

HIDDEN, COUNT, GAMMA = 12, 5, 0.95
torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, HIDDEN, batch_first=True)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h):
        y, h = self.gru(x, h)
        return self.pi(y), self.v(y).squeeze(-1), h


def episode(env, policy, h):
    seen, actions, rewards, over = [], [], [], False
    obs = env.reset()[0]
    while not over:
        x = torch.as_tensor(obs[::2], dtype=torch.float32)
        with torch.no_grad():
            logits, _, h = policy(x.view(1, 1, 2), h)
        action = Categorical(logits=logits[0, 0]).sample()
        obs, reward, terminated, truncated, _ = env.step(action.item())
        seen.append(x)
        actions.append(action)
        rewards.append(float(reward))
        over = terminated or truncated
    return torch.stack(seen), torch.stack(actions), rewards, h


def discounted(rewards):
    found, after = [], 0.0
    for one in reversed(rewards):
        after = one + GAMMA * after
        found.append(after)
    return torch.tensor(found[::-1])


env, policy = gym.make("CartPole-v1"), Policy()
env.reset(seed=1)
optim = torch.optim.Adam(policy.parameters(), lr=1e-3)
for update in range(8):
    episodes = []
    h = torch.zeros(1, 1, HIDDEN)
    for _ in range(COUNT):
        *one, after = episode(env, policy, h)
        episodes.append(one)
    lengths = torch.tensor([len(one[2]) for one in episodes])
    obs = pad_sequence([one[0] for one in episodes], batch_first=True)
    act = pad_sequence([one[1] for one in episodes], batch_first=True)
    ret = pad_sequence([discounted(one[2]) for one in episodes], batch_first=True)
    mask = (torch.arange(obs.shape[1]) < lengths[:, None]).float()
    logits, value, _ = policy(obs, torch.zeros(1, COUNT, HIDDEN))
    gain = ret - value.detach()
    mean = (gain * mask).sum() / mask.sum()
    gain = (gain - mean) / ((gain - mean).square() * mask).sum().div(mask.sum()).sqrt()
    chosen = Categorical(logits=logits).log_prob(act)
    loss = (((value - ret).square() - chosen * gain) * mask).sum() / mask.sum()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
CODES = "BD301,CL403,EQ201,LS701,LS707,RP505,RP507,VL603"
NO_MASK = ("- chosen * gain) * mask).sum()", "- chosen * gain)).sum()")
KEPT = ("        episodes.append(one)\n", "        h = after\n        episodes.append(one)\n")
LATE = ("for one in reversed(rewards):", "for one in reversed([0.0, *rewards[:-1]]):")
AS_IT_IS = (
    "    gain = (gain - mean) / ((gain - mean).square() * mask).sum().div(mask.sum()).sqrt()\n",
    "",
)
BY_NAME = (
    ("return torch.stack(seen), torch.stack(actions), rewards, h",
     "return dict(x=torch.stack(seen), a=torch.stack(actions), r=rewards), h"),
    ("        *one, after = episode", "        one, after = episode"),
    ("len(one[2])", 'len(one["r"])'),
    ("one[0] for", 'one["x"] for'),
    ("one[1] for", 'one["a"] for'),
    ("discounted(one[2])", 'discounted(one["r"])'),
)  # fmt: skip
APART = (
    ("    episodes = []\n", "    xs, acts, rewards = [], [], []\n"),
    ("        episodes.append(one)\n",
     "        for all_of, its in zip((xs, acts, rewards), one):\n            all_of.append(its)\n"),
    ("[len(one[2]) for one in episodes]", "[len(one) for one in rewards]"),
    ("[one[0] for one in episodes]", "xs"),
    ("[one[1] for one in episodes]", "acts"),
    ("discounted(one[2]) for one in episodes", "discounted(one) for one in rewards"),
)  # fmt: skip

RETURNS = (
    ("torch.stack(actions), rewards, h", "torch.stack(actions), discounted(rewards), h"),
    ("discounted(one[2]) for one in episodes", "one[2] for one in episodes"),
)


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), "", id="tuples", marks=pytest.mark.slow),
        pytest.param(RETURNS, "", id="returns are made of them at once", marks=pytest.mark.slow),
        pytest.param(BY_NAME, "", id="by name", marks=pytest.mark.slow),
        pytest.param(APART, "", id="lists of their own"),
        pytest.param((NO_MASK,), "RP505", id="padding is trained on"),
        pytest.param((KEPT,), "CL403", id="the state goes on behind an episode"),
        pytest.param((AS_IT_IS, LATE), "LS707", id="rewards of the step before"),
        pytest.param(
            (*APART, NO_MASK), "RP505", id="of lists of their own", marks=pytest.mark.slow
        ),
    ],
)
def test_episodes_in_lists(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: str
) -> None:
    """Each thing in them is of a stretch of the steps, and the padded rows that are made of them
    are judged; a normalised gain couples all episodes, and is no leak."""
    code, found = judged(rnncheck, tmp_path, CODES, EPISODES, *changes)
    assert code == (ExitCode.FAILED if expected else ExitCode.VERIFIED)
    assert expected in found if expected else not found


def _steps() -> TensorDict:
    seen = torch.arange(18.0).reshape(1, 9, 2)
    return TensorDict({"observation": seen}, batch_size=(1, 9))


def test_what_was_observed_tells_which_steps_the_lists_are_of() -> None:
    """With or without what came last; lists beside of as many things are of the same."""
    seen = _steps()["observation"][0]
    xs = [torch.cat([seen[:4], torch.full((1, 2), -1.0)]), seen[4:9]]
    names = {"xs": xs, "rewards": [[0.0] * 4, [1.0] * 5], "names": ["a", "b"], "two": [1, 2]}
    found = episode_lists(names, _steps())
    assert found.keys() == {("xs",), ("rewards",)}
    assert [(one.begin, one.length) for one in found[("rewards",)]] == [(0, 4), (4, 5)]


@pytest.mark.parametrize("order", [[5, 4], [0, 2]])
def test_what_is_of_no_stretch(order: list[int]) -> None:
    """Steps in another order, and episodes that overlap, are of none."""
    seen = _steps()["observation"][0]
    items = [seen[order], seen[4:9]] if order[0] else [seen[:5], seen[3:9]]
    assert episode_lists({"xs": items}, _steps()) == {}
