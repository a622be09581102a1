"""Loops that keep each transition as a tuple in an object, which hands them out and forgets them
before it trains: with two passes, over what was observed and over what was observed next."""

from __future__ import annotations

from tests.watching.next_values_script import changed

_HEAD = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

torch.manual_seed(0)
HORIZON, HIDDEN, GAMMA, LAMBDA = 20, 16, 0.98, 0.95
"""

TRANSITIONS = (
    _HEAD
    + """

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.memory = nn.Linear(4, 24), nn.LSTM(24, HIDDEN)
        self.actor, self.critic = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)
        self.data = []

    def remember(self, x, state):
        return self.memory(torch.relu(self.enter(x)).view(-1, 1, 24), state)

    def pi(self, x, state):
        feature, state = self.remember(x, state)
        return F.softmax(self.actor(feature), -1), state

    def v(self, x, state):
        return self.critic(self.remember(x, state)[0])

    def put(self, transition):
        self.data.append(transition)

    def hand_out(self):
        seen, actions, rewards, after, probs, goes_on, before, behind = ([] for _ in range(8))
        for x, action, reward, x_after, prob, state, state_after, over in self.data:
            seen.append(torch.tensor(x))
            actions.append([action])
            rewards.append([reward])
            after.append(torch.tensor(x_after))
            probs.append([prob])
            goes_on.append([0.0 if over else 1.0])
            before.append(state)
            behind.append(state_after)
        self.data = []
        return (
            torch.stack(seen),
            torch.tensor(actions),
            torch.tensor(rewards),
            torch.stack(after),
            torch.tensor(probs),
            torch.tensor(goes_on),
            before[0],
            behind[0],
        )

    def train_on_it(self, optim):
        seen, actions, rewards, after, probs, goes_on, first, second = self.hand_out()
        first = tuple(one.detach() for one in first)
        second = tuple(one.detach() for one in second)
        for _ in range(2):
            next_value = self.v(after, second).squeeze(1)
            target = rewards + GAMMA * next_value * goes_on
            value = self.v(seen, first).squeeze(1)
            delta, gain, gains = (target - value).detach(), 0.0, []
            for one in delta.flip(0):
                gain = one.item() + GAMMA * LAMBDA * gain
                gains.insert(0, [gain])
            gains = torch.tensor(gains)
            prob = self.pi(seen, first)[0].squeeze(1).gather(1, actions)
            ratio = prob / probs
            clipped = ratio.clamp(0.9, 1.1)
            policy_loss = -torch.min(ratio * gains, clipped * gains)
            loss = (policy_loss + F.smooth_l1_loss(value, target.detach())).mean()
            optim.zero_grad()
            loss.backward()
            optim.step()


def main():
    env, agent = gym.make("CartPole-v1"), Agent()
    optim = torch.optim.Adam(agent.parameters(), 5e-4)
    for episode in range(12):
        state = torch.zeros(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN)
        x, _ = env.reset(seed=episode)
        over = False
        while not over:
            for _ in range(HORIZON):
                before = state
                prob, state = agent.pi(torch.tensor(x), before)
                prob = prob.view(-1)
                action = Categorical(prob).sample().item()
                x_after, reward, over, _, _ = env.step(action)
                agent.put(
                    (x, action, reward / 10, x_after, prob[action].item(), before, state, over)
                )
                x = x_after
                if over:
                    break
            agent.train_on_it(optim)


main()
"""
)

# The memory is a cell that takes one step at a time.
STEPWISE = TRANSITIONS.replace("nn.LSTM(24, HIDDEN)", "Stepwise()").replace(
    "class Agent(",
    """class Stepwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(24, HIDDEN)

    def forward(self, x, state):
        found, (h, c) = [], (one[0] for one in state)
        for one in x:
            h, c = self.cell(one, (h, c))
            found.append(h)
        return torch.stack(found), (h[None], c[None])


class Agent(""",
)
# Every step is valued from the state that was kept with it, all of them in one call.
_FLAT = (
    (
        "    def v(self, x, state):\n        return self.critic(self.remember(x, state)[0])\n",
        """    def v(self, x, state):
        feature, _ = self.memory(torch.relu(self.enter(x)).unsqueeze(0), state)
        return self.critic(feature).transpose(0, 1)
""",
    ),
    ("behind[0],", "before,\n            behind,"),
    ("goes_on, first, second = self", "goes_on, first, before, behind = self"),
    (
        "        second = tuple(one.detach() for one in second)\n",
        """        own = tuple(torch.cat(one, 1).detach() for one in zip(*before))
        second = tuple(torch.cat(one, 1).detach() for one in zip(*behind))
""",
    ),
    ("self.v(seen, first)", "self.v(seen, own)"),
)
FLAT = changed(TRANSITIONS, *_FLAT)
# Both passes begin with zeros, as those of recurrent Q-learning mostly do.
FROM_ZEROS = changed(
    TRANSITIONS,
    ("first = tuple(one.detach() for", "first = tuple(torch.zeros_like(one) for"),
    ("second = tuple(one.detach() for", "second = tuple(torch.zeros_like(one) for"),
)
# No episode ends in the first rollout, and one begins in none before the third.
SHORT = changed(TRANSITIONS, ("LAMBDA = 20,", "LAMBDA = 8,"))

HEALTHY = {"stepwise": STEPWISE, "flat": FLAT}
OF_THIS_STEP = {
    "stepwise": ("self.v(after, second)", "self.v(after, first)"),
    "flat": ("self.v(after, second)", "self.v(after, own)"),
}
FAULTS = {
    ("kept", "CL403"): (
        "        state = torch.zeros(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN)\n",
        "        if not episode:\n"
        "            state = torch.zeros(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN)\n",
    ),
    ("from the state of this step", "VL604"): ("self.v(after, second)", "self.v(after, first)"),
    ("over ends", "VL603"): ("next_value * goes_on", "next_value"),
    ("from the last state", "VL604"): ("before[0],", "before[-1],"),
}
