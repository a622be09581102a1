"""``rnncheck run``: loops over plain gymnasium envs that cannot be judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, run

STATE_IN_THE_NETWORK = """
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


class Swing(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.random.rand(3).astype(np.float32), {}

    def step(self, action):
        self.t += 1
        return np.random.rand(3).astype(np.float32), 1.0, self.t > 7, False, {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head, self.h = nn.GRUCell(3, 8), nn.Linear(8, 2), None

    def act(self, x):
        self.h = self.cell(x, self.h)
        return Categorical(logits=self.head(self.h)).sample()


env, net = Swing(), Net()
optim = torch.optim.Adam(net.parameters())
for _ in range(4):
    seen, xs = env.reset()[0], []
    net.h = None
    for _ in range(8):
        x = torch.as_tensor(seen).unsqueeze(0)
        with torch.no_grad():
            action = net.act(x)
        seen, reward, over, _, _ = env.step(action.item())
        xs.append(x)
    net.h, loss = None, 0.0
    for x in xs:
        net.h = net.cell(x, net.h)
        loss = loss + net.head(net.h).square().sum()
    optim.zero_grad()
    loss.backward()
    optim.step()
"""


def test_a_state_that_is_kept_in_the_network_is_seen(rnncheck: Any, tmp_path: Path) -> None:
    """It is None at first. The env is of a class that the script itself makes."""
    path = tmp_path / "kept.py"
    path.write_text(STATE_IN_THE_NETWORK)
    ended, found, _ = run(rnncheck, "--select", "WR103", "--select", "CL402", path)
    assert (ended, found["verdict"]) == (ExitCode.VERIFIED, "verified")


FORGETS = STATE_IN_THE_NETWORK.replace("self.h = self.cell(x, self.h)", "h = self.cell(x)").replace(
    "self.head(self.h)", "self.head(h)", 1
)


def test_a_state_that_is_dropped_is_told_of_a_saved_run_too(rnncheck: Any, tmp_path: Path) -> None:
    path, file = tmp_path / "kept.py", tmp_path / "seen.rnncheck"
    path.write_text(FORGETS)
    ended, found, _ = run(rnncheck, "--select", "CL401", "--save", file, path)
    assert (ended, failed(found)) == (ExitCode.FAILED, ["CL401"])
    again = rnncheck("verify", str(file), "--select", "CL401")
    assert again.returncode == ExitCode.FAILED
    assert "`act` acts without memory" in " ".join(again.stdout.split())


def test_a_state_that_nobody_hands_on_is_told(rnncheck: Any, tmp_path: Path) -> None:
    """Training runs on single steps as well: nothing is forgotten."""
    path = tmp_path / "kept.py"
    path.write_text(FORGETS.replace("net.h = net.cell(x, net.h)", "net.h = net.cell(x)"))
    file = tmp_path / "seen.rnncheck"
    ended, found, _ = run(rnncheck, "--select", "WR103", "--save", file, path)
    assert (ended, found["verdict"]) == (ExitCode.NOT_SHOWN, "nothing-verified")
    told = [one for one in found["notices"] if "steps an env by itself" in one]
    assert len(told) == 1
    assert "`act` is not given a state that its call before returned" in told[0]
    assert "`action, state = act(obs, state, done)`" in told[0]
    again = rnncheck("verify", str(file), "--select", "WR103")
    assert again.returncode == ExitCode.NOT_SHOWN
    said = " ".join(again.stdout.split())
    assert " ".join(told[0].split()) in said  # with the counts of then
    assert "next: change the call that acts as is said above, then rnncheck run" in said


STUBBORN = """

class Stubborn(list):
    def __iter__(self):
        raise RuntimeError("not to be looked into")

"""


def test_what_cannot_be_looked_into_does_not_end_the_script(rnncheck: Any, tmp_path: Path) -> None:
    path = tmp_path / "stubborn.py"
    text = STATE_IN_THE_NETWORK.replace("\n\nclass Net", STUBBORN + "\nclass Net")
    text = text.replace("def act(self, x):", "def act(self, x, more):")
    path.write_text(text.replace("net.act(x)", "net.act(x, Stubborn([1]))") + "print('through')\n")
    ended, found, done = run(rnncheck, "--select", "WR103", "--keep-going", path)
    assert ended == ExitCode.NOT_SHOWN
    assert "through" in done.stderr + done.stdout
    assert any("RuntimeError: not to be looked into" in one for one in found["notices"])


# The function that acts is given the network; flags, rewards and ends are lists of plain numbers.
HANDED = """
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

STEPS = 40


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.pi = nn.GRU(4, 16, batch_first=True), nn.Linear(16, 2)


def act(net, obs, h):
    with torch.no_grad():
        y, h = net.gru(obs.view(1, 1, 4), h)
        return Categorical(logits=net.pi(y[0, 0])).sample(), h


def unroll(net, seen, h, starts):
    found = []
    for x, start in zip(seen, starts):
        if start:
            h = torch.zeros(1, 1, 16)
        y, h = net.gru(x.view(1, 1, 4), h)
        found.append(y[0, 0])
    return net.pi(torch.stack(found))


def main():
    torch.manual_seed(0)
    env, net = gym.make("CartPole-v1", max_episode_steps=15), Net()
    optim = torch.optim.Adam(net.parameters(), lr=1e-2)
    obs, _ = env.reset(seed=0)
    h, start = torch.zeros(1, 1, 16), True
    for _ in range(4):
        first, seen, actions, rewards, starts, ends = h, [], [], [], [], []
        for _ in range(STEPS):
            x = torch.as_tensor(obs, dtype=torch.float32)
            action, new = act(net, x, h)
            obs, reward, terminated, truncated, _ = env.step(action.item())
            seen.append(x)
            actions.append(action)
            rewards.append(reward)
            starts.append(start)
            h, start = new, terminated or truncated
            ends.append(start)
            if start:
                obs, _ = env.reset()
                h = torch.zeros(1, 1, 16)
        returns, after = [0.0] * STEPS, 0.0
        for t in reversed(range(STEPS)):
            returns[t] = after = rewards[t] + 0.9 * after * (1 - ends[t])
        logits = unroll(net, torch.stack(seen), first, starts)
        chosen = Categorical(logits=logits).log_prob(torch.stack(actions))
        gain = torch.tensor(returns)
        loss = -(chosen * (gain - gain.mean())).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()


if __name__ == "__main__":
    main()
"""


def outcome(
    rnncheck: Any, folder: Path, old: str = "", new: str = "", select: str = ""
) -> tuple[int, list[str]]:
    assert HANDED.count(old) == 1 or not old
    (folder / "train.py").write_text(HANDED.replace(old, new) if old else HANDED)
    asked = ["--select", select] if select else []
    code, told, _ = run(rnncheck, *asked, folder / "train.py")
    return code, [check["code"] for check in told["checks"] if check["outcome"] == "failed"]


@pytest.mark.slow
@pytest.mark.parametrize("select", ["CL,LS", pytest.param("", marks=pytest.mark.slow)])
def test_networks_and_lists_of_numbers_are_handed_over_as_they_are(
    rnncheck: Any, tmp_path: Path, select: str
) -> None:
    assert outcome(rnncheck, tmp_path, select=select) == (ExitCode.VERIFIED, [])


def test_training_that_always_starts_from_zeros_is_named(rnncheck: Any, tmp_path: Path) -> None:
    """The first rollout begins with zeros in any case: the second one is judged."""
    path = tmp_path / "train.py"
    text = HANDED.replace(
        "first, seen, actions, rewards, starts, ends = h,",
        "first, seen, actions, rewards, starts, ends = torch.zeros(1, 1, 16),",
    )
    assert text != HANDED
    path.write_text(text)
    code, told, _ = run(rnncheck, "--select", "RP504", path)
    assert (code, [one["outcome"] for one in told["checks"]]) == (ExitCode.FAILED, ["failed"])
    path.write_text(HANDED)
    assert run(rnncheck, "--select", "RP504", path)[0] == ExitCode.VERIFIED


OWN_ENV = """
class Drift(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (4,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return torch.rand(4).numpy(), {}

    def step(self, action):
        self.t += 1
        return torch.rand(4).numpy(), 1.0, self.t > 12, False, {}


class Net("""
OF_ITS_OWN = HANDED.replace("class Net(", OWN_ENV.lstrip(), 1).replace(
    'gym.make("CartPole-v1", max_episode_steps=15)', "Drift()"
)


def test_an_env_of_the_scripts_own_is_played(rnncheck: Any, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(OF_ITS_OWN)
    ended, found, _ = run(rnncheck, "--select", "CL403", path)
    assert (ended, failed(found)) == (ExitCode.VERIFIED, [])


def test_an_env_that_is_none_of_gymnasiums_is_not_judged(rnncheck: Any, tmp_path: Path) -> None:
    """Its reset gives what is observed alone: why nobody is judged is said."""
    text = OF_ITS_OWN.replace("numpy(), {}\n", "numpy()\n").replace("obs, _ = env", "obs = env")
    assert text.count("obs = env.reset(") == 2
    path = tmp_path / "train.py"
    path.write_text(text)
    ended, found, _ = run(rnncheck, "--select", "CL,LS", path)
    assert (ended, failed(found)) == (ExitCode.NOT_SHOWN, [])
    assert "no env like the script's can be played" in " ".join(found["notices"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (" * (1 - ends[t])", "", "LS701"),
        (
            "        if start:\n            h = torch.zeros(1, 1, 16)\n        y",
            "        y",
            "BD301",
        ),
        ("                h = torch.zeros(1, 1, 16)\n        returns", "        returns", "CL403"),
    ],
)
def test_faults_of_such_a_loop_are_named(
    rnncheck: Any, tmp_path: Path, old: str, new: str, code: str
) -> None:
    found, failures = outcome(rnncheck, tmp_path, old, new)
    assert found == ExitCode.FAILED
    assert code in failures
