"""A plain loop of short rollouts, of which a later one reaches the env's time limit, with updates
on two of them at a time."""

from __future__ import annotations

from tests.watching.lines_script import HEAD

LIMITS = (
    HEAD
    + """
ENVS, STEPS, LIMIT = 6, 8, 20


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, HIDDEN)
        self.pi, self.v = nn.Linear(HIDDEN, 2), nn.Linear(HIDDEN, 1)

    def forward(self, x, h, start):
        h = self.cell(x, h * (1 - start).unsqueeze(-1))
        return self.pi(h), self.v(h).squeeze(-1), h


torch.manual_seed(2)
make = lambda: gym.make("CartPole-v1", max_episode_steps=LIMIT)
same = gym.vector.AutoresetMode.SAME_STEP
envs = gym.vector.SyncVectorEnv([make] * ENVS, autoreset_mode=same)
net = Net()
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.as_tensor(envs.reset(seed=2)[0])
h, start = torch.zeros(ENVS, HIDDEN), torch.ones(ENVS)
for update in range(16):
    h = h.detach()
    told, values, rews, going = [], [], [], []
    for step in range(STEPS):
        logits, value, h = net(x, h, start)
        dist = Categorical(logits=logits)
        a = dist.sample()
        seen, rew, terminated, truncated, info = envs.step(a.numpy())
        x, start = torch.as_tensor(seen), torch.as_tensor(terminated | truncated).float()
        kept = dist.log_prob(a), value, torch.as_tensor(rew).float(), 1 - start
        for rows, one in zip((told, values, rews, going), kept):
            rows.append(one)
    with torch.no_grad():
        after = net(x, h, start)[1]
    found = []
    for rew, on in zip(reversed(rews), reversed(going)):
        after = rew + GAMMA * on * after
        found.append(after)
    gain = torch.stack(found[::-1]) - torch.stack(values)
    loss = gain.square().mean() - (torch.stack(told) * gain.detach()).mean()
    (loss / 2).backward()
    if update % 2:
        optim.step()
        optim.zero_grad()
"""
)
LIMIT_IS_NO_END = (
    "kept = dist.log_prob(a), value, torch.as_tensor(rew).float(), 1 - start\n",
    "kept = dist.log_prob(a), value, torch.as_tensor(rew).float(), 1 - torch.as_tensor(terminated)"
    ".float()\n",
)
