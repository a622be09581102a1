"""Loops whose updates are made on pieces of a rollout, in an env of few places, so that many steps
show the same: pieces that the lines run one step after the other, and pieces that are filled up
with zeros and handed to the network as one batch. And the whole of it in several epochs."""

ENV = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

ENVS, STEPS, PIECE, WIDTH = 4, 16, 4, 12


class Hall(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (7,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.count, self.sign = 3, 0, int(self.np_random.integers(2))
        return self.shown(), {}

    def shown(self):
        seen = np.zeros(7, np.float32)
        seen[self.at] = 1.0
        if self.count == 0:
            seen[6 * self.sign] = 0.5
        return seen

    def step(self, action):
        self.count += 1
        self.at = min(6, max(0, self.at + (1 if action == 1 else -1)))
        over = self.at in (0, 6) or self.count >= 9
        return self.shown(), float(self.at == 6 * self.sign), over, False, {}


class Envs:
    def __init__(self):
        self.envs = [Hall() for _ in range(ENVS)]

    def reset(self):
        return [env.reset(seed=n)[0] for n, env in enumerate(self.envs)]

    def step(self, actions):
        told = []
        for env, action in zip(self.envs, actions):
            seen, reward, over, _, _ = env.step(int(action))
            if over:
                seen, _ = env.reset()
            told.append((seen, reward, over))
        return zip(*told)
"""
STEPPED = (
    ENV
    + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.cell = nn.Linear(7, WIDTH), nn.LSTMCell(WIDTH, WIDTH)
        self.pi, self.v = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 1)

    def forward(self, seen, memory):
        h, c = self.cell(torch.relu(self.body(seen)), memory.chunk(2, 1))
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1), torch.cat([h, c], 1)


class Algo:
    def __init__(self):
        self.env, self.net = Envs(), Net()
        self.seen, self.memory = self.env.reset(), torch.zeros(ENVS, 2 * WIDTH)
        self.mask = torch.ones(ENVS)
        self.optim = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def collect(self):
        names = ("memory", "mask", "action", "value", "reward", "log_prob")
        kept, all_seen = {name: [] for name in names}, []
        for _ in range(STEPS):
            with torch.no_grad():
                dist, value, after = self.net(
                    torch.tensor(np.array(self.seen)), self.memory * self.mask.unsqueeze(1)
                )
            action = dist.sample()
            seen, reward, over = self.env.step(action.numpy())
            here = (self.memory, self.mask, action, value, torch.tensor(reward))
            for name, one in zip(names, (*here, dist.log_prob(action))):
                kept[name].append(one)
            all_seen.append(self.seen)
            self.seen, self.memory = seen, after
            self.mask = 1 - torch.tensor(over, dtype=torch.float)
        with torch.no_grad():
            _, after, _ = self.net(
                torch.tensor(np.array(self.seen)), self.memory * self.mask.unsqueeze(1)
            )
        data = {name: torch.stack(one).float() for name, one in kept.items()}
        mask, gains = torch.cat([data["mask"][1:], self.mask.unsqueeze(0)]), []
        for t in reversed(range(STEPS)):
            after = data["reward"][t] + 0.97 * after * mask[t]
            gains.append(after)
        data["gain"] = torch.stack(gains[::-1])
        flat = {k: v.transpose(0, 1).reshape(ENVS * STEPS, *v.shape[2:]) for k, v in data.items()}
        rows = [all_seen[t][n] for n in range(ENVS) for t in range(STEPS)]
        return flat, torch.tensor(np.array(rows))

    def update(self, data, seen):
        for _ in range(2):
            starts = np.random.permutation(np.arange(0, ENVS * STEPS, PIECE))
            for some in np.split(starts, 2):
                memory, loss = data["memory"][some], 0
                for i in range(PIECE):
                    at = some + i
                    dist, value, memory = self.net(
                        seen[at], memory * data["mask"][at].unsqueeze(1)
                    )
                    ratio = (dist.log_prob(data["action"][at]) - data["log_prob"][at]).exp()
                    gain = data["gain"][at] - data["value"][at]
                    clipped = ratio.clamp(0.8, 1.2) * gain
                    loss = loss - torch.min(ratio * gain, clipped).mean()
                    loss = loss + 0.5 * (value - data["gain"][at]).square().mean()
                self.optim.zero_grad()
                (loss / PIECE).backward()
                self.optim.step()


torch.manual_seed(0)
np.random.seed(0)
algo = Algo()
for _ in range(6):
    data, seen = algo.collect()
    algo.update(data, seen)
"""
)
NO_RESET = ('seen[at], memory * data["mask"][at].unsqueeze(1)', "seen[at], memory")
CUT = (
    "for i in range(PIECE):",
    "for i in range(PIECE):\n                    memory = memory.detach()",
)

PADDED = (
    ENV
    + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(7, WIDTH, batch_first=True)
        self.pi, self.v = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 1)

    def forward(self, seen, h, length=1):
        out, h = self.cell(seen.reshape(-1, length, 7), h)
        out = out.reshape(-1, WIDTH)
        return Categorical(logits=self.pi(out)), self.v(out).squeeze(-1), h


def pieces(rows, over):
    \"\"\"Of every episode pieces of PIECE steps, zeros behind the last of them.\"\"\"
    found = []
    for row, ends in zip(rows, over):
        edges = sorted({0, *(int(n) + 1 for n in ends.nonzero()), STEPS})
        for first, last in zip(edges, edges[1:]):
            for begin in range(first, last, PIECE):
                part = row[begin : min(begin + PIECE, last)]
                found.append(torch.cat([part, part.new_zeros(PIECE - len(part), *part.shape[1:])]))
    return torch.stack(found)


torch.manual_seed(0)
envs, net = Envs(), Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
seen, h = envs.reset(), torch.zeros(1, ENVS, WIDTH)
for _ in range(6):
    all_seen = torch.zeros(ENVS, STEPS, 7)
    states = torch.zeros(ENVS, STEPS, WIDTH)
    actions = torch.zeros(ENVS, STEPS, dtype=torch.long)
    rewards, values, log_probs = (torch.zeros(ENVS, STEPS) for _ in range(3))
    over = torch.zeros(ENVS, STEPS, dtype=torch.bool)
    for t in range(STEPS):
        with torch.no_grad():
            all_seen[:, t], states[:, t] = torch.tensor(np.array(seen)), h.squeeze(0)
            dist, values[:, t], h = net(torch.tensor(np.array(seen)), h)
            action = dist.sample()
            actions[:, t], log_probs[:, t] = action, dist.log_prob(action)
        seen, reward, ends = envs.step(action.numpy())
        rewards[:, t], over[:, t] = torch.tensor(reward), torch.tensor(ends)
        h[:, over[:, t]] = 0
    with torch.no_grad():
        _, after, _ = net(torch.tensor(np.array(seen)), h)
    gains = torch.zeros(ENVS, STEPS)
    for t in reversed(range(STEPS)):
        after = rewards[:, t] + 0.97 * after * (~over[:, t])
        gains[:, t] = after
    held = (all_seen, actions, log_probs, gains, gains - values, torch.ones(ENVS, STEPS))
    xs, taken, before, target, gain, mask = (pieces(one, over) for one in held)
    first = pieces(states, over)[:, 0]
    for _ in range(2):
        for some in torch.randperm(len(xs)).chunk(2):
            flat = [one[some].flatten(0, 1) for one in (taken, before, target, gain, mask)]
            action, was, aim, good, there = flat
            dist, value, _ = net(xs[some].flatten(0, 1), first[some].unsqueeze(0), PIECE)
            ratio = (dist.log_prob(action) - was).exp()
            chosen = -torch.min(ratio * good, ratio.clamp(0.8, 1.2) * good)
            loss = ((chosen + 0.5 * (value - aim).square()) * there).sum() / there.sum()
            optim.zero_grad()
            loss.backward()
            optim.step()
"""
)
COUNTED = (" * there).sum() / there.sum()", ").mean()")
SCALED = ("there).sum() / there.sum()", "there).mean()")
FROM_ZEROS = ("first[some].unsqueeze(0)", "torch.zeros_like(first[some]).unsqueeze(0)")
STATE_BEHIND = (
    """            all_seen[:, t], states[:, t] = torch.tensor(np.array(seen)), h.squeeze(0)
            dist, values[:, t], h = net(torch.tensor(np.array(seen)), h)
""",
    """            all_seen[:, t] = torch.tensor(np.array(seen))
            dist, values[:, t], h = net(torch.tensor(np.array(seen)), h)
            states[:, t] = h.squeeze(0)
""",
)

# The whole rollout step by step, in two epochs.
EPOCHS = (
    ENV
    + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(7, WIDTH)
        self.pi, self.v = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 1)

    def forward(self, seen, h):
        h = self.cell(seen, h)
        return self.pi(h), self.v(h).squeeze(-1), h


torch.manual_seed(0)
envs, net = Envs(), Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
seen, h, mask = envs.reset(), torch.zeros(ENVS, WIDTH), torch.ones(ENVS, 1)
for _ in range(6):
    first, kept = h, {name: [] for name in ("seen", "mask", "action", "log_prob", "reward")}
    for t in range(STEPS):
        with torch.no_grad():
            logits, _, h = net(torch.tensor(np.array(seen)), h * mask)
        dist = Categorical(logits=logits)
        action = dist.sample()
        after, reward, ends = envs.step(action.numpy())
        here = (np.array(seen), mask, action, dist.log_prob(action), torch.tensor(reward))
        for name, one in zip(kept, here):
            kept[name].append(one)
        seen, mask = after, 1 - torch.tensor(ends, dtype=torch.float).unsqueeze(1)
    after, gains = torch.zeros(ENVS), []
    masks = [*kept["mask"][1:], mask]
    for t in reversed(range(STEPS)):
        after = kept["reward"][t].float() + 0.97 * after * masks[t].squeeze(1)
        gains.append(after)
    gain = torch.stack(gains[::-1])
    for _ in range(2):
        state, loss = first, 0
        for t in range(STEPS):
            logits, value, state = net(torch.tensor(kept["seen"][t]), state * kept["mask"][t])
            now = Categorical(logits=logits).log_prob(kept["action"][t])
            ratio = (now - kept["log_prob"][t]).exp()
            good = (gain[t] - value).detach()
            loss = loss - torch.min(ratio * good, ratio.clamp(0.8, 1.2) * good).mean()
            loss = loss + 0.5 * (value - gain[t]).square().mean()
        optim.zero_grad()
        (loss / STEPS).backward()
        optim.step()
"""
)
RUNS_ON = ('state * kept["mask"][t])', "state)")
