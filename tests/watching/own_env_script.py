"""The plain loops of fixtures/scripts with envs of classes of their own: no gymnasium."""

from __future__ import annotations

from tests.watching.scripts import SCRIPTS

_CUE = '''

class Cue:
    """A sign is shown at the first step, and asked for at every one."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def look(self):
        first = self.sign * float(self.t == 0)
        return np.array([first, self.t / 9, self.rng.normal(), 1.0], np.float32)

    def reset(self):
        self.t, self.sign = 0, self.rng.choice([-1.0, 1.0])
        return self.look()

    def step(self, action):
        self.t += 1
        reward = float((2 * action - 1) * self.sign)
        return self.look(), reward, bool(self.t >= 9 or self.rng.random() < 0.05), {}
'''

_ROWS = '''

class Cues:
    """Several at once, each of which begins anew by itself; tensors in and out."""

    def __init__(self, count, seed):
        self.rng, self.count = torch.Generator().manual_seed(seed), count

    def look(self):
        noise = torch.randn(self.count, generator=self.rng)
        return torch.stack([self.sign * (self.t == 0), self.t / 9, noise, self.t * 0 + 1], 1)

    def draw(self):
        return torch.randint(2, (self.count,), generator=self.rng) * 2.0 - 1.0

    def reset(self):
        self.t, self.sign = torch.zeros(self.count), self.draw()
        return self.look()

    def step(self, action):
        self.t = self.t + 1
        reward = (2 * action - 1) * self.sign
        done = (self.t >= 9) | (torch.rand(self.count, generator=self.rng) < 0.05)
        self.t = torch.where(done, 0.0, self.t)
        self.sign = torch.where(done, self.draw(), self.sign)
        return self.look(), reward, done, {}
'''


def _changed(name: str, *changes: tuple[str, str]) -> str:
    text = (SCRIPTS / name).read_text()
    for old, new in changes:
        assert old in text, f"{name} has no {old!r} any more"
        text = text.replace(old, new)
    return text


ALONE = _changed(
    "plain_single.py",
    ("import gymnasium as gym\n", "import numpy as np\n"),
    ("\n\nclass Recurrent", f"{_CUE}\n\nclass Recurrent"),
    ('gym.make("CartPole-v1")', "Cue(2)"),
    ("env.reset(seed=2)[0]", "env.reset()"),
    ("seen, reward, terminated, truncated, _ = env", "seen, reward, over, _ = env"),
    ("        over = terminated or truncated\n", ""),
    ("seen, _ = env.reset()", "seen = env.reset()"),
)
TOGETHER = _changed(
    "plain_vector.py",
    ("import gymnasium as gym\n", ""),
    ("from gymnasium.vector import AutoresetMode, SyncVectorEnv\n", ""),
    ("\n\nclass Agent", f"{_ROWS}\n\nclass Agent"),
    (
        """SyncVectorEnv(
        [lambda: gym.make("CartPole-v1") for _ in range(ENVS)],
        autoreset_mode=AutoresetMode.SAME_STEP,
    )""",
        "Cues(ENVS, 5)",
    ),
    ("envs.single_observation_space.shape[0], envs.single_action_space.n", "4, 2"),
    ("*envs.single_observation_space.shape", "4"),
    ("torch.Tensor(envs.reset(seed=5)[0])", "envs.reset()"),
    ("seen, reward, terminated, truncated, _ = envs.step(action.numpy())",
     "next_obs, reward, done, _ = envs.step(action)"),
    ("torch.tensor(reward).view(-1)", "reward"),
    ("            next_obs = torch.Tensor(seen)\n", ""),
    ("torch.Tensor(np.logical_or(terminated, truncated))", "done.float()"),
    ("    envs.close()\n", ""),
)  # fmt: skip
