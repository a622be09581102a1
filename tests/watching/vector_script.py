"""Plain loops over several gymnasium envs at once, and over one whose steps are kept as arrays."""

from __future__ import annotations

from tests.watching.lines_script import HEAD

VECTOR = (
    HEAD
    + """
ENVS, STEPS = 4, 32
scales, tilt = torch.tensor([0.5, 2.0]), torch.linspace(-0.1, 0.1, HIDDEN)
weights = torch.linspace(0.5, 1.5, ENVS)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h, start):
        h = self.cell(x, h * (1 - start).unsqueeze(-1))
        return self.pi(h), self.v(h).squeeze(-1), h

    @torch.no_grad()
    def act(self, x, h, start):
        logits, value, h = self(x, h, start)
        return Categorical(logits=logits).sample(), value, h

    def replay(self, xs, h, starts):
        logits, values = [], []
        for x, start in zip(xs, starts):
            out, value, h = self(x, h, start)
            logits.append(out)
            values.append(value)
        return torch.stack(logits), torch.stack(values)


def maker(limit):
    return lambda: gym.make("CartPole-v1", max_episode_steps=limit)


same = gym.vector.AutoresetMode.SAME_STEP
envs = gym.vector.SyncVectorEnv([maker(8), maker(500)] * (ENVS // 2), autoreset_mode=same)
net = Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
x, h, start = torch.tensor(envs.reset(seed=2)[0]), torch.zeros(ENVS, HIDDEN), torch.zeros(ENVS)
for update in range(5):
    first, early = h, h
    xs, starts, acts, rews = [], [], [], []
    for step in range(STEPS):
        a, guess, h = net.act(x, h, start)
        xs.append(x)
        starts.append(start)
        acts.append(a)
        seen, rew, terminated, truncated, _ = envs.step(a.numpy())
        rews.append(torch.tensor(rew, dtype=torch.float32))
        x, start = torch.tensor(seen), torch.tensor(terminated | truncated).float()
        h = h * (1 - start).unsqueeze(-1)
        early = h if step == 5 else early
    with torch.no_grad():
        after = net.act(x, h, start)[1]
    ends, found = [*starts[1:], start], []
    for r, end in zip(reversed(rews), reversed(ends)):
        after = r + GAMMA * after * (1 - end)
        found.append(after)
    logits, values = net.replay(torch.stack(xs), first, torch.stack(starts))
    gain = torch.stack(found[::-1]) - values
    told = Categorical(logits=logits).log_prob(torch.stack(acts))
    each = gain.square() - told * gain.detach()
    loss = each.mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
UNKNOWN = {  # by the variable that holds what nobody knows
    "weights": ("each.mean()", "(each * weights).mean()"),
    "guess": (
        "    with torch.no_grad():\n        after = net.act(x, h, start)[1]\n",
        "    after = guess\n",
    ),
    "early": ("first, torch.stack(starts)", "early, torch.stack(starts)"),
}
KNOWN = {  # constants of the script's own
    "two numbers": ("each.mean()", "(each * scales[0]).mean()"),
    "one number for each unit": ("first, torch.stack(starts)", "first + tilt, torch.stack(starts)"),
}
# Every second env's episode ends with the last step of a rollout: what acting goes on from is zero
# there, and is not what the step gave.
LAST_FROM_ZERO = ("after = net.act(x, h, start)", "after = net.act(x, 0 * h, start)")

STACKED = VECTOR.replace(
    "    ends, found = ",
    "    rews, acts = torch.stack(rews), torch.stack(acts)\n    ends, found = ",
).replace("torch.stack(acts))", "acts)")
RUN_ON = (" * (1 - end)", "")

ARRAYS = (
    HEAD
    + """
STEPS = 48


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h):
        h = self.cell(torch.as_tensor(x).reshape(1, 4), h)
        return self.pi(h), self.v(h).flatten(), h

    @torch.no_grad()
    def act(self, x, h):
        logits, _, h = self(x, h)
        return Categorical(logits=logits).sample(), h


env, net = gym.make("CartPole-v1"), Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
x, h, done = env.reset(seed=2)[0], torch.zeros(1, HIDDEN), False
for update in range(5):
    xs, hs, starts, acts, rews, dones = [], [], [], [], [], []
    for step in range(STEPS):
        xs.append(x)
        hs.append(h)
        starts.append(done)
        a, h = net.act(x, h)
        x, r, term, trunc, _ = env.step(a.item())
        done = term or trunc
        acts.append(a)
        rews.append(r)
        dones.append(done)
        if done:
            x, h = env.reset()[0], torch.zeros(1, HIDDEN)
    after, found = 0.0, []
    for r, d in zip(reversed(rews), reversed(dones)):
        after = r + GAMMA * after * (1 - d)
        found.append(after)
    state, told, values = hs[0], [], []
    for seen, did, begins, kept in zip(np.stack(xs), acts, starts, hs):
        state = torch.zeros(1, HIDDEN) if begins else state
        logits, value, state = net(seen, state)
        told.append(Categorical(logits=logits).log_prob(did))
        values.append(value)
    gain = torch.tensor(found[::-1]) - torch.cat(values)
    loss = (gain.square() - torch.cat(told) * gain.detach()).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
)
STEP_BY_STEP = ("state = torch.zeros(1, HIDDEN) if begins else state", "state = kept")
