"""``rnncheck run``: R2D2 by hand, whose loss burns the stored states of its sequences in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.plain_calls import OfStepBefore, ToldCall
from rnncheck.watching.forms.recognised import storages_in
from tests.watching.scripts import judged

SEQUENCES = """
import copy
import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn

H, BURN, LEARN, STRIDE, GAMMA = 12, 4, 8, 4, 0.97
random.seed(0)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Linear(2, H), nn.LSTM(H, H, batch_first=True)
        self.head = nn.Linear(H, 2)

    def forward(self, x, hx):
        y, hx = self.lstm(self.embed(x).relu(), hx)
        return self.head(y), hx


class Memory:
    def __init__(self):
        self.data = deque(maxlen=400)

    def add(self, obs, act, rew, term, hs, cs):
        for s in range(0, max(1, len(act) - BURN), STRIDE):
            e = min(s + BURN + LEARN, len(act))
            seen = np.zeros((BURN + LEARN + 1, 2), np.float32)
            seen[: e - s + 1] = np.stack(obs[s : e + 1])
            filled = lambda x: np.pad(np.array(x, np.float32), (0, BURN + LEARN - (e - s)))
            self.data.append(
                dict(
                    obs=seen,
                    act=filled(act[s:e]),
                    rew=filled(rew[s:e]),
                    term=filled(term[s:e]),
                    mask=filled(np.ones(e - s)),
                    h=hs[s],
                    c=cs[s],
                )
            )

    def sample(self, count):
        rows = random.sample(self.data, count)
        names = ("obs", "act", "rew", "term", "mask")
        found = {k: torch.as_tensor(np.stack([row[k] for row in rows])) for k in names}
        return found, tuple(torch.cat([row[k] for row in rows], 1) for k in "hc")


def learn(net, target, optim, memory):
    b, hx = memory.sample(12)
    with torch.no_grad():
        _, burnt = net(b["obs"][:, :BURN], hx)
        _, burnt_too = target(b["obs"][:, :BURN], hx)
    q, _ = net(b["obs"][:, BURN:], burnt)
    act, rew, term, mask = (b[k][:, BURN:] for k in ("act", "rew", "term", "mask"))
    with torch.no_grad():
        after, _ = target(b["obs"][:, BURN:], burnt_too)
        best = after[:, 1:].gather(-1, q[:, 1:].argmax(-1, keepdim=True)).squeeze(-1)
        wanted = rew + GAMMA * (1 - term) * best
    chosen = q[:, :-1].gather(-1, act.long().unsqueeze(-1)).squeeze(-1)
    loss = ((chosen - wanted).square() * mask).sum() / mask.sum()
    optim.zero_grad()
    loss.backward()
    optim.step()


env, net, memory = gym.make("CartPole-v1"), Net(), Memory()
target = copy.deepcopy(net).requires_grad_(False)
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
for number in range(40):
    o = env.reset(seed=number)[0][::2]
    hx = (torch.zeros(1, 1, H), torch.zeros(1, 1, H))
    obs, act, rew, term, hs, cs, done = [o], [], [], [], [], [], False
    while not done:
        hs.append(hx[0])
        cs.append(hx[1])
        with torch.no_grad():
            q, hx = net(torch.as_tensor(o)[None, None], hx)
        a = random.randrange(2) if random.random() < 0.3 else int(q.argmax())
        o, r, terminated, truncated, _ = env.step(a)
        o, done = o[::2], terminated or truncated
        obs.append(o)
        act.append(a)
        rew.append(r)
        term.append(terminated)
    memory.add(obs, act, rew, term, hs, cs)
    if len(memory.data) >= 16:
        for _ in range(3):
            learn(net, target, optim, memory)
"""
A_STEP_LATE = (
    "            q, hx = net(torch.as_tensor(o)[None, None], hx)\n",
    "            q, hx = net(torch.as_tensor(o)[None, None], hx)\n"
    "        hs[-1], cs[-1] = hx\n",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="as it is"),
        pytest.param((A_STEP_LATE,), (ExitCode.FAILED, ["RP504"]), id="stored a step late"),
    ],
)
def test_states_that_later_weights_burn_in_are_not_those_of_acting(
    rnncheck: Any, tmp_path: Path, changes: Any, expected: Any
) -> None:
    """Behind the first update they are others; the stored ones are judged."""
    assert judged(rnncheck, tmp_path, "RP504", SEQUENCES, *changes) == expected


@pytest.mark.parametrize("zeroed", [True, False])
def test_the_reward_that_a_next_step_is_shown_is_told(zeroed: bool) -> None:
    """A loop zeroes it where an episode ended; another one of the rows is not known."""
    reward = torch.randn(2, 9, 1)
    done = torch.zeros(2, 9, 1, dtype=torch.bool)
    done[0, -1] = True
    batch = TensorDict(
        {
            "observation": torch.randn(2, 9, 3),
            "next": {
                "observation": torch.randn(2, 9, 3),
                "reward": reward,
                "done": done,
                "terminated": done,
                "truncated": done & False,
            },
        },
        batch_size=(2, 9),
    )
    before = {("reward_before",): OfStepBefore(("next", "reward"))}
    held = reward[:, -1, 0] * (~done[:, -1, 0] if zeroed else torch.tensor([0.5, 0.5]))
    found = storages_in({"last": held}, batch, ToldCall(rows=2, before=before), frozenset())
    if not zeroed:
        assert not found.parts
        return
    other = batch.clone()
    other["next", "reward"][:, -1] = torch.tensor([[3.0], [4.0]])
    assert np.allclose(found.parts[("last",)].of(other), [0.0, 4.0])
