"""The plain loop over one env of fixtures/scripts with an env of gymnasium's that a class of the
script's own shows in another way, or that a wrapper gives steps of four parts of."""

from __future__ import annotations

from tests.watching.scripts import SCRIPTS

_SHOWN = '''

class Positions:
    """Without velocities, and with smaller rewards."""

    def __init__(self):
        self._env, self.seen = gym.make("CartPole-v1", max_episode_steps=20), [1.0, 0.0, 1.0, 0.0]

    def look(self, seen):
        return (seen * self.seen).astype("float32")

    def reset(self, seed=None):
        return self.look(self._env.reset(seed=seed)[0])

    def step(self, action):
        seen, reward, terminated, truncated, _ = self._env.step(action)
        ends = terminated or truncated
        return self.look(seen), reward / 10, ends, {"over": True} if ends else None
'''
_FOUR = '''

class Cut(gym.Wrapper):
    """Tells beside the step that a time limit has cut the episode."""

    def step(self, action):
        seen, reward, terminated, truncated, told = self.env.step(action)
        told = {"cut": True} if truncated and not terminated else told
        return seen, reward, terminated or truncated, told
'''


def _with(made: str, env: str, *changes: tuple[str, str]) -> str:
    text = (SCRIPTS / "plain_single.py").read_text()
    for old, new in (
        ("\n\nclass Recurrent", f"{made}\n\nclass Recurrent"),
        ('gym.make("CartPole-v1"), Recurrent()', f"{env}, Recurrent()"),
        ("seen, reward, terminated, truncated, _ = env", "seen, reward, over, _ = env"),
        ("        over = terminated or truncated\n", ""),
        *changes,
    ):
        assert old in text, f"the script has no {old!r} any more"
        text = text.replace(old, new)
    return text


OTHERWISE = _with(
    _SHOWN,
    "Positions()",
    ("env.reset(seed=2)[0]", "env.reset(seed=2)"),
    ("seen, _ = env.reset()", "seen = env.reset()"),
)
IN_FOUR = _with(_FOUR, 'Cut(gym.make("CartPole-v1", max_episode_steps=20))')
KEEPS = ("            h = torch.zeros_like(h)\n", "")
STALE = ("first = h\n        data, x, h, start", "first = h\n        data, x, _, start")
