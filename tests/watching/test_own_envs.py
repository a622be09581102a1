"""``rnncheck run``: envs of classes of the user's own, made of no library's."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchrl.envs.utils import check_env_specs

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.own_env import OwnEnv, OwnRows, holds_another, shown_by_reset, step_of
from tests.watching.own_env_script import ALONE, TOGETHER
from tests.watching.scripts import failed, judged, run, written

CODES = "BD301,CL402,CL403,CL405,EQ201,LS701,RP504,VL603"
KEEPS = ("            h = torch.zeros_like(h)\n        x, start", "        x, start")
RUNS_ON = ("            h = torch.where(start.view(-1, 1), torch.zeros_like(h), h)\n", "")
LATE_MASK = ("1.0 - dones[t + 1], values", "1.0 - dones[t], values")
OF_THE_END = (
    "(initial_state[0][:, mine], initial_state[1][:, mine])",
    "(next_state[0][:, mine], next_state[1][:, mine])",
)
AN_AGENT = (
    "def rollout(env",
    '''class Agent:
    """It has the methods of an env, and is none."""

    def __init__(self, net):
        self.net = net
        self.reset()

    def reset(self):
        self.h = torch.zeros(1, HIDDEN)
        return self.h

    def step(self, x):
        action, value, self.h = self.net.act(x, self.h)
        return action, value, self.h


class Rate:
    """A number that falls."""

    def reset(self):
        self.now = 1.0
        return self.now

    def step(self, factor):
        self.now *= factor
        return self.now


def rollout(env''',
)
USED = (
    "    for update in range(updates):\n        first = h\n",
    """    agent, rate = Agent(net), Rate()
    rate.reset()
    with torch.no_grad():
        agent.step(x)
    for update in range(updates):
        rate.step(0.9)
        first = h
""",
)
A_LIMIT = (
    "class Recurrent",
    '''class Limit:
    """Around an env: episodes of a few steps at most."""

    def __init__(self, env, most):
        self.env, self.most = env, most

    def reset(self):
        self.n = 0
        return self.env.reset()

    def step(self, action):
        self.n += 1
        seen, reward, done, info = self.env.step(action)
        return seen, reward, done or self.n >= self.most, info


class Recurrent''',
)
LIMITED = ("Cue(2)", "Limit(Cue(2), 6)")


def test_a_script_with_an_env_of_its_own_is_verified(rnncheck: Any, tmp_path: Path) -> None:
    """Every check of the stages that it has is answered."""
    code, told, _ = run(rnncheck, written(tmp_path, ALONE))
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    outcomes = {check["code"]: check["outcome"] for check in told["checks"]}
    assert {outcomes[one] for one in ("BD301", "CL402", "EQ201", "LS701", "VL603")} == {"passed"}


Told = namedtuple("Told", ["timeout", "score"])


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((KEEPS,), "CL403", id="the loop keeps the state behind an end"),
        pytest.param((RUNS_ON,), "BD301", id="training goes on behind an end"),
        pytest.param((AN_AGENT, USED), "", id="beside classes with its methods"),
        pytest.param((A_LIMIT, LIMITED), "", id="with another around it"),
    ],
)
def test_one_env(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: str
) -> None:
    """Faults of the loop around it are named, and what only looks like an env is left alone."""
    code, found = judged(rnncheck, tmp_path, CODES, ALONE, *changes)
    assert code == (ExitCode.FAILED if expected else ExitCode.VERIFIED)
    assert expected in found if expected else not found


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), "", id="as it is"),
        pytest.param((LATE_MASK,), "LS701", id="advantages over the end", marks=pytest.mark.slow),
        pytest.param((OF_THE_END,), "RP504", id="the state of the rollout's end"),
    ],
)
def test_several_that_begin_anew_by_themselves(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: str
) -> None:
    """The observation at an end is the next episode's: that does no harm where the task is over."""
    code, found = judged(rnncheck, tmp_path, CODES, TOGETHER, *changes)
    assert code == (ExitCode.FAILED if expected else ExitCode.VERIFIED)
    assert expected in found if expected else not found


@pytest.mark.parametrize(
    ("found", "flags"),
    [
        (([0.0, 1.0], 1.0, True), (True, False)),
        ((np.zeros(2), 1, False, {}), (False, False)),
        ((np.zeros(2), 1.0, True, {"TimeLimit.truncated": True}), (False, True)),
        ((np.zeros(2), 1.0, True, Told(False, 3)), (True, False)),
        ((np.zeros(2), 1.0, True, Told(True, 3)), (False, True)),
        ((torch.zeros(2), torch.tensor(1.0), torch.tensor(False), True, {}), (False, True)),
        ((3, 0.5, np.bool_(True), np.bool_(False)), (True, False)),
        ((3, 0.5, False, True), (False, True)),
        ((3, 0.5, 1, 0), (True, False)),
        ((np.zeros(2), 1.0, False, 1), (False, False)),  # the number of a trial
        ((np.zeros(2), 1.0, True, 7), (True, False)),
        ((np.zeros(2), 1.0, np.bool_(True), np.zeros(3)), (True, False)),
        ((np.zeros(2), 1.0, True, "done"), (True, False)),
        ((np.zeros(2), 1.0, True, False, 5), (True, False)),
    ],
)
def test_steps_of_one_env(found: Any, flags: tuple[bool, bool]) -> None:
    """Three to five parts, in whatever form."""
    told = step_of(found)
    assert told is not None
    assert told[2:4] == flags
    assert isinstance(told[1], float)


def test_steps_of_several() -> None:
    """Flags and rewards are one for each of the rows."""
    done = torch.tensor([[True], [False]])
    told = step_of((torch.zeros(2, 3), torch.ones(2, 1), done, {}))
    assert told is not None
    assert told[2].tolist() == [True, False]
    assert told[1].shape == (2,)


@pytest.mark.parametrize(
    "found",
    [
        None,
        0.5,
        (np.zeros(2), 1.0),
        (np.zeros(2), 1.0, 0.3),
        (np.zeros(2), 1.0, 0.0, np.ones(3)),  # as an agent's: an action, a value and a state
        (np.zeros(2), 1.0, 1, 7),
        (np.zeros(2), np.zeros(3), True, {}),
        ("a", 1.0, True, {}),
        (np.zeros(2), 1.0, True, {}, {}, {}),
    ],
)
def test_no_steps(found: Any) -> None:
    """What gives none of the known forms is no env."""
    assert step_of(found) is None


class Walk:
    """A number that moves by what it is given; ``rows`` of them begin anew by themselves."""

    def __init__(self, rows: int | None = None) -> None:
        self.rng, self.rows = np.random.default_rng(0), rows

    def reset(self) -> Any:
        self.at = self.rng.normal(size=self.rows or 1)
        return self.look()

    def look(self) -> Any:
        seen = np.stack([self.at, self.at * 0], -1).astype(np.float32)
        return seen if self.rows else seen[0]

    def step(self, action: Any) -> Any:
        self.at = self.at + np.asarray(action)
        over = np.abs(self.at) > 2
        reward = -np.abs(self.at)
        self.at = np.where(over, self.rng.normal(size=over.shape), self.at)
        if self.rows:
            return self.look(), reward, over, {}
        return self.look(), float(reward[0]), bool(over[0]), {}


def test_one_env_as_gymnasiums() -> None:
    """It is played with actions of those that it was given, in their form, and by its seed."""
    env = OwnEnv(Walk())
    assert env.action_space is None
    env.notes(shown_by_reset(env.own.reset()))
    for action in (0.5, -0.25):
        env.notes(env.own.step(action)[0], action, False)
    low, high = env.action_space.low, env.action_space.high  # type: ignore[union-attr]
    assert (low.item(), high.item()) == (-0.25, 0.5)
    begun = [env.reset(seed=3)[0].tolist() for _ in range(2)]
    assert begun[0] == begun[1]


def test_several_as_one_of_torchrls() -> None:
    """Rows, specs and partial resets fit."""
    env = OwnEnv(Walk(rows=3))
    env.notes(shown_by_reset(env.own.reset()))
    action = np.array([0.5, -0.5, 0.0])
    env.notes(env.own.step(action)[0], action, np.zeros(3, bool))
    made = OwnRows(env)
    check_env_specs(made)
    torch.manual_seed(0)  # where all of them end at once they are reset once more
    seen = made.rollout(12, break_when_any_done=False)
    over = seen["next", "done"][:, :-1, 0]
    assert torch.equal(seen["next", "observation"][:, :-1][over], seen["observation"][:, 1:][over])


def test_what_holds_an_env_of_a_librarys_or_networks() -> None:
    """That one is watched, or who acts is."""
    own = Walk()
    assert not holds_another(own)
    own.net = torch.nn.Linear(1, 1)  # type: ignore[attr-defined]
    assert holds_another(own)


AS_ARRAY = (
    ("import numpy as np\n", "import gymnasium as gym\nimport numpy as np\n"),
    ("class Cue:\n", "class Cue:\n    action_space = gym.spaces.Discrete(2)\n\n"),
    ("reward = float((2 * action - 1)", "reward = float((2 * action[0] - 1)"),
    ("env.step(action.item())", "env.step(action.numpy())"),
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param((KEEPS,), (ExitCode.FAILED, ["CL403"]), id="never reset"),
    ],
)
def test_one_action_of_a_discrete_space_may_stand_in_an_array(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    codes = "BD302,CL403,EQ206"
    assert judged(rnncheck, tmp_path, codes, ALONE, *AS_ARRAY, *changes) == expected
