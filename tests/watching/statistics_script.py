"""PPO scripts of the fixtures whose network normalises what it is shown by running means."""

from __future__ import annotations

from tests.watching.scripts import SCRIPTS

NORM = """class RunningNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.tensor(1e-4))

    @torch.no_grad()
    def update(self, x):
        flat = x.reshape(-1, x.shape[-1])
        n, delta = len(flat), flat.mean(0) - self.mean
        total = self.count + n
        squares = self.var * self.count + flat.var(0, unbiased=False) * n
        self.var.copy_((squares + delta**2 * self.count * n / total) / total)
        self.mean += delta * n / total
        self.count += n

    def forward(self, x):
        if self.training:
            self.update(x)
        return ((x - self.mean) / (self.var + 1e-5).sqrt()).clamp(-5, 5)


"""
# An average that forgets, put in place of the one before.
AVERAGE = """class RunningNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().reshape(-1, x.shape[-1]).mean(0)
        return x - self.mean


"""
# What each env was shown before, in a buffer with a place for each of them.
OF_ROWS = """class RunningNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("trace", torch.zeros(4, size))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        if len(flat) != len(self.trace):
            return x
        self.trace.mul_(0.9).add_(0.1 * flat.detach())
        return (flat - self.trace).reshape(x.shape)


"""
# And in one of a fixed shape that the first env alone fills.
OF_THE_FIRST = (
    OF_ROWS.replace("zeros(4, size)", "zeros(1, size)")
    .replace("        if len(flat) != len(self.trace):\n            return x\n", "")
    .replace("0.1 * flat.detach()", "0.1 * flat.detach()[:1]")
)


def _changed(name: str, norm: str, before: str, changes: tuple[tuple[str, str], ...]) -> str:
    text = (SCRIPTS / f"{name}.py").read_text()
    for old, new in ((before, norm + before), *changes):
        assert old in text, f"{name} has no {old!r} any more"
        text = text.replace(old, new)
    return text


def collected(norm: str, *changes: tuple[str, str]) -> str:
    """With a collector, the norm as a module ahead of the memory."""
    made = "TensorDictModule(RunningNorm(2), in_keys=['observation'], out_keys=['normed'])"
    own = (
        ("    memory = make_lstm()\n", f"    norm = {made}\n    memory = make_lstm()\n"),
        ('in_key="observation", out_key="embed")', 'in_key="normed", out_key="embed")'),
        ("TensorDictSequential(memory, ", "TensorDictSequential(norm, memory, "),
    )
    return _changed("ppo_cartpole", norm, "class Masked(", (*own, *changes))


def plain(*changes: tuple[str, str]) -> str:
    """A loop over a vector env, the norm ahead of the encoder."""
    own = (
        (
            "        self.encoder = ",
            "        self.norm = RunningNorm(seen)\n        self.encoder = ",
        ),
        ("self.encoder(x)", "self.encoder(self.norm(x))"),
    )
    return _changed("plain_vector", NORM, "class Agent(", (*own, *changes))


STILL = ("if self.training:", "if False:")
_LOOP = "    for number, data in enumerate(collector):\n"
BETWEEN = (_LOOP, f"{_LOOP}        norm.module.update(data['observation'])\n")
# eval() to act, train() to train.
BY_MODE = (
    (
        "        for step in range(STEPS):\n            obs[step]",
        "        agent.eval()\n        for step in range(STEPS):\n            obs[step]",
    ),
    (
        "        columns = np.arange(ENVS)\n",
        "        columns = np.arange(ENVS)\n        agent.train()\n",
    ),
)
AT_EACH_STEP = (
    "            next_obs = torch.Tensor(seen)\n",
    "            next_obs = torch.Tensor(seen)\n            agent.norm.update(next_obs)\n",
)
BEHIND_ROLLOUTS = (
    "        b_obs = obs.reshape",
    "        agent.norm.update(obs)\n        b_obs = obs.reshape",
)
NOT_RESET = ("keep = (1.0 - d).view(1, -1, 1)", "keep = 1.0")
