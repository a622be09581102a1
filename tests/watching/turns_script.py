"""Plain loops over envs that they step one after the other, each in a way of its own."""

from __future__ import annotations

from tests.watching.vector_script import VECTOR

_MADE = """same = gym.vector.AutoresetMode.SAME_STEP
envs = gym.vector.SyncVectorEnv([maker(8), maker(500)] * (ENVS // 2), autoreset_mode=same)
"""
_SEEN = "torch.tensor(envs.reset(seed=2)[0])"
_STEP = """        seen, rew, terminated, truncated, _ = envs.step(a.numpy())
"""
_CLASS = """

class Envs{base}:
    def __init__(self, envs):
        self.envs = envs

    def reset(self):
        return np.stack([env.reset(seed=n)[0] for n, env in enumerate(self.envs)])

    def step(self, actions):
        found = []
        for env, action in zip(self.envs, actions):
            seen, rew, terminated, truncated, info = env.step(int(action))
            if terminated or truncated:
                seen = env.reset()[0]
            found.append((seen, rew, terminated, truncated))
        return [np.array(one) for one in zip(*found)]


envs = Envs([maker(8 + 92 * (n % 2))() for n in range(ENVS)])
"""
_LINES = """        seen, rew = np.zeros((ENVS, 4), np.float32), np.zeros(ENVS)
        over = np.zeros(ENVS, bool)
        for n, env in enumerate(envs):
            seen[n], rew[n], terminated, truncated, _ = env.step(a[n].item())
            over[n] = terminated or truncated
            if over[n]:
                seen[n] = env.reset()[0]
"""


def _changed(*changes: tuple[str, str]) -> str:
    text = VECTOR
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def _envs(base: str) -> str:
    return _changed(
        (_MADE, _CLASS.format(base=base)),
        (_SEEN, "torch.tensor(envs.reset())"),
        (_STEP, _STEP.replace(", _ =", " =")),
    )


_ACTS = """with torch.no_grad():
            logits, guess, h = net(x, h, start)
            a = Categorical(logits=logits).sample()"""
TURNS = {
    "an own vector env": _envs(""),
    "one that calls itself an env": _envs("(gym.Env)"),
    "lines of the loop": _changed(
        (_MADE, "envs = [maker(8 + 92 * (n % 2))() for n in range(ENVS)]\n"),
        (_SEEN, "torch.tensor(np.stack([env.reset(seed=2)[0] for env in envs]))"),
        (_STEP, _LINES),
        ("torch.tensor(terminated | truncated).float()", "torch.tensor(over).float()"),
        ("a, guess, h = net.act(x, h, start)", _ACTS),
    ),
}
# What the script resets of an env stands between that one's step and the next one's.
_BEGINS = "                seen[n] = env.reset()[0]\n"
TURNS["lines that reset between the steps"] = (
    TURNS["lines of the loop"]
    .replace(_BEGINS, _BEGINS + " " * 16 + "h = h.clone()\n" + " " * 16 + "h[n] = 0\n")
    .replace("        h = h * (1 - start).unsqueeze(-1)\n", "")
)
FAULTS = {
    "CL403": (("h * (1 - start).unsqueeze(-1)", "h"),),  # kept, where an episode ended
    "LS701": ((" * (1 - end)", ""),),  # returns run on
}
