"""A plain loop whose collecting function values what is observed behind its last step itself."""

from __future__ import annotations

from tests.watching.lines_script import HEAD

COLLECTED = (
    HEAD.replace("torch.manual_seed(2)\n", "")  # nothing runs where it is imported
    + """
ENVS, STEPS = 4, 16


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def step(self, x, h, start):
        h = self.cell(x, h * (~start).float().unsqueeze(-1))
        return self.pi(h), self.v(h).squeeze(-1), h


def collect(envs, net, x, h, start):
    xs, starts, acts, rews, dones, first = [], [], [], [], [], h
    for _ in range(STEPS):
        with torch.no_grad():
            logits, _, new = net.step(x, h, start)
        a = Categorical(logits=logits).sample()
        seen, rew, terminated, truncated, _ = envs.step(a.numpy())
        over = torch.as_tensor(terminated | truncated)
        rows = xs, starts, acts, rews, dones
        for kept, one in zip(rows, (x, start, a, torch.as_tensor(rew).float(), over)):
            kept.append(one)
        x, h, start = torch.as_tensor(seen), new, over
    with torch.no_grad():
        last = net.step(x, h, start)[1]
    return [torch.stack(kept) for kept in rows], first, last, (x, h, start)


def unroll(net, xs, h, starts):
    logits, values = [], []
    for x, start in zip(xs, starts):
        out, value, h = net.step(x, h, start)
        logits.append(out)
        values.append(value)
    return torch.stack(logits), torch.stack(values)


def returns(rews, dones, last):
    found = []
    for r, over in zip(reversed(rews), reversed(dones)):
        last = r + GAMMA * last * ~over
        found.append(last)
    return torch.stack(found[::-1])


def main():
    torch.manual_seed(2)
    same = gym.vector.AutoresetMode.SAME_STEP
    make = lambda: gym.make("CartPole-v1", max_episode_steps=9)
    envs = gym.vector.SyncVectorEnv([make] * ENVS, autoreset_mode=same)
    net = Net()
    optim = torch.optim.Adam(net.parameters(), lr=1e-3)
    begun = torch.as_tensor(envs.reset(seed=2)[0])
    carry = begun, torch.zeros(ENVS, HIDDEN), torch.ones(ENVS, dtype=torch.bool)
    for update in range(5):
        (xs, starts, acts, rews, dones), first, last, carry = collect(envs, net, *carry)
        logits, values = unroll(net, xs, first, starts)
        gain = returns(rews, dones, last) - values
        told = Categorical(logits=logits).log_prob(acts)
        weight = gain.detach()
        loss = (gain.square() - told * weight).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()


if __name__ == "__main__":
    main()
"""
)
NORMALISED = (
    "        weight = gain.detach()\n",
    "        weight = ((gain - gain.mean()) / gain.std()).detach()\n        told = told.exp()\n",
)
OVER_ENDS = ("GAMMA * last * ~over", "GAMMA * last")
UNKNOWN = (  # made between the steps, of no call
    (
        "    for _ in range(STEPS):\n",
        "    for _ in range(STEPS):\n        last = torch.rand(ENVS)\n",
    ),
    ("        last = net.step(x, h, start)[1]\n", "        pass\n"),
)
CUE = (  # an episode shows something with its first step alone
    "h = self.cell(x, h",
    "h = self.cell(9 * x * start.float().unsqueeze(-1), h",
)
LIGHT = ("gain.square() - told", "0.02 * gain.square() - told")
BY_A_METHOD = (
    (
        "\n\ndef collect(",
        """
    @torch.no_grad()
    def act(self, x, h, start):
        logits, _, h = self.step(x, h, start)
        return Categorical(logits=logits).sample(), h


def collect(""",
    ),
    (
        """        with torch.no_grad():
            logits, _, new = net.step(x, h, start)
        a = Categorical(logits=logits).sample()
""",
        "        a, new = net.act(x, h, start)\n",
    ),
)
