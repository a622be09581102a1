"""REINFORCE in plain PyTorch after its own examples: an LSTM cell on observations that stay arrays
until the network reads them."""

HEALTHY = """
import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(4, 16)
        self.lstm = nn.LSTMCell(16, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, x, hidden):
        hidden = self.lstm(torch.tanh(self.affine(x)), hidden)
        return self.head(hidden[0]).softmax(-1), hidden


torch.manual_seed(1)
env = gymnasium.make("CartPole-v1", max_episode_steps=30)
env.reset(seed=1)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def select_action(state, hidden):
    state = torch.from_numpy(state).float().unsqueeze(0)
    probs, hidden = policy(state, hidden)
    chosen = Categorical(probs)
    action = chosen.sample()
    return action.item(), chosen.log_prob(action), hidden


def finish_episode(log_probs, rewards):
    total, returns = 0.0, []
    for reward in rewards[::-1]:
        total = reward + 0.95 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    loss = torch.cat([-one * gain for one, gain in zip(log_probs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    for _ in range(8):
        state, _ = env.reset()
        hidden = torch.zeros(1, 16), torch.zeros(1, 16)
        log_probs, rewards, done = [], [], False
        while not done:
            action, log_prob, hidden = select_action(state, hidden)
            state, reward, terminated, truncated, _ = env.step(action)
            done = terminated or truncated
            log_probs.append(log_prob)
            rewards.append(reward)
        finish_episode(log_probs, rewards)


main()
"""
Change = tuple[str, str]
READ = "torch.from_numpy(state).float().unsqueeze(0)"
FLOAT_TENSOR: Change = (READ, "torch.FloatTensor(state).unsqueeze(0)")
COPIED: Change = (READ, "torch.tensor(np.array([state]), dtype=torch.float32)")
ZIPPED = "zip(log_probs, returns)"
NORMALISED: Change = (
    "    returns = torch.tensor(returns)\n",
    "    returns = torch.tensor(returns)\n"
    "    returns = (returns - returns.mean()) / (returns.std() + 1e-6)\n",
)
WHOLE_RETURN: Change = (ZIPPED, "zip(log_probs, returns[:1].expand(len(returns)))")
BASELINE: Change = ("-one * gain", "-one * (gain - 5.0)")
LATE: Change = (ZIPPED, "zip(log_probs[1:], returns)")
EARLY: Change = (ZIPPED, "zip(log_probs, returns[1:])")
CUT: Change = (
    "select_action(state, hidden)\n            state",
    "select_action(state, tuple(one.detach() for one in hidden))\n            state",
)


def changed(*changes: Change) -> str:
    """The script with each of the changes, which must fit."""
    text = HEALTHY
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text
