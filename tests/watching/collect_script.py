"""A script whose method that steps its envs makes the returns as well; another method trains."""

SCRIPT = """
import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn
from torch.distributions import Categorical

ENVS, STEPS, HIDDEN = 4, 24, 16


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, HIDDEN)
        self.actor, self.critic = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def unroll(self, x, state, starts):
        found = []
        for seen, start in zip(x, starts):
            out, state = self.gru(seen.unsqueeze(0), (1.0 - start).view(1, -1, 1) * state)
            found.append(out)
        return torch.cat(found), state

    def forward(self, x, state, starts):
        hidden, state = self.unroll(x, state, starts)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1), state

    def act(self, x, state, starts):
        dist, value, state = self(x.unsqueeze(0), state, starts.unsqueeze(0))
        action = dist.sample()
        return action[0], dist.log_prob(action)[0], value[0], state


class Runner:
    def __init__(self):
        self.envs = SyncVectorEnv(
            [lambda: gym.make("CartPole-v1", max_episode_steps=30) for _ in range(ENVS)],
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        self.agent = Agent()
        self.optim = torch.optim.Adam(self.agent.parameters(), lr=1e-3)
        self.last_seen = self.envs.reset(seed=3)[0]
        self.last_starts = np.ones(ENVS, np.float32)
        self.last_state = torch.zeros(1, ENVS, HIDDEN)

    def collect(self):
        self.seen = np.zeros((STEPS, ENVS, 4), np.float32)
        self.actions = np.zeros((STEPS, ENVS), np.int64)
        self.rewards, self.starts, self.logps, self.values = (
            np.zeros((STEPS, ENVS), np.float32) for _ in range(4)
        )
        self.begins, state = self.last_state, self.last_state
        for t in range(STEPS):
            with torch.no_grad():
                x, starts = torch.as_tensor(self.last_seen), torch.as_tensor(self.last_starts)
                action, logp, value, state = self.agent.act(x, state, starts)
            seen, reward, over, late, _ = self.envs.step(action.numpy())
            self.seen[t], self.starts[t] = self.last_seen, self.last_starts
            self.actions[t], self.rewards[t] = action.numpy(), reward
            self.logps[t], self.values[t] = logp.numpy(), value.numpy()
            self.last_seen, self.last_starts = seen, (over | late).astype(np.float32)
        self.last_state = state
        with torch.no_grad():
            x, starts = torch.as_tensor(seen), torch.as_tensor(self.last_starts)
            behind = self.agent.act(x, state, starts)[2].numpy()
        self.make_returns(behind)
        return True

    def make_returns(self, behind):
        self.returns, total = np.zeros_like(self.rewards), 0.0
        for t in reversed(range(STEPS)):
            last = t == STEPS - 1
            goes_on = 1.0 - (self.last_starts if last else self.starts[t + 1])
            following = behind if last else self.values[t + 1]
            mixed = following if last else 0.2 * following + 0.8 * total
            self.returns[t] = total = self.rewards[t] + 0.95 * goes_on * mixed

    def train(self):
        for _ in range(2):
            names = ("seen", "starts", "actions", "logps", "returns", "values")
            seen, starts, actions, logps, returns, values = (
                torch.as_tensor(getattr(self, name)) for name in names
            )
            dist, value, _ = self.agent(seen, self.begins, starts)
            ratio = (dist.log_prob(actions) - logps).exp()
            policy_loss = -(ratio * (returns - values)).mean()
            loss = policy_loss + 0.5 * (returns - value).square().mean()
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()

    def learn(self):
        for _ in range(8):
            going = self.collect()
            if not going:
                break
            self.train()


if __name__ == "__main__":
    torch.manual_seed(0)
    Runner().learn()
"""
UNCUT = ("goes_on = 1.0 - (self.last_starts if last else self.starts[t + 1])", "goes_on = 1.0")
