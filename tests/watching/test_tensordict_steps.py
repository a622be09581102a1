"""``rnncheck run``: loops over envs that are none of TorchRL's, in which TorchRL's modules act on
tensordicts that the loop makes, and its losses train them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import OTHERS, judged, judged_other, run, written

SLOW = pytest.mark.slow
NAME = "gym_loop"
FORGETS_ENDS = ('"is_init": done}', '"is_init": torch.zeros_like(done)}')
NOT_BEGUN = ("hidden = torch.where(done.unsqueeze(-1), 0.0, hidden)", "hidden = hidden.clone()")
FROM_ZEROS = (NOT_BEGUN[0], "hidden = torch.zeros_like(hidden)")
STATE_BEHIND = ("td.clone().set(", 'td.clone().set("hidden", hidden).set(')
SINGLE_STEPS = ("loss_of(data[rows])", "loss_of(data.reshape(-1)[torch.randperm(64)])")
IN_STEPS = (
    "                advantage(data)",
    "                with set_recurrent_mode(False):\n                    advantage(data)",
)
SHORT = ("max_episode_steps=30", "max_episode_steps=9")
NEXT_BEGUN = ('"position": last_seen(after, info)', '"position": torch.as_tensor(after)')
NORMALISED = (
    'begun = {"position": torch.as_tensor(after), "hidden"',
    'begun = {"position": torch.as_tensor(after) * 3, "hidden"',
)
# An env of the user's own that gives tensordicts, whose episodes begin anew by themselves.
OWN_ENV = '''
class Drift:
    """A point that drifts; its speed is not shown."""

    def __init__(self):
        self.noise = torch.Generator().manual_seed(0)
        self.place = self.speed = self.age = None

    def shown(self, begun):
        seen = torch.stack([self.place, self.place.sin()], -1)
        return {"position": seen, "is_init": begun.unsqueeze(-1).clone()}

    def reset(self):
        self.place, self.speed = torch.zeros(ENVS), torch.zeros(ENVS)
        self.age = torch.zeros(ENVS, dtype=torch.long)
        return TensorDict(self.shown(torch.ones(ENVS, dtype=torch.bool)), [ENVS])

    def step(self, push):
        self.speed = 0.9 * self.speed + 0.3 * (2.0 * push - 1)
        self.place, self.age = self.place + 0.3 * self.speed, self.age + 1
        over = self.place.abs() > 1.0
        drawn = 0.2 * torch.randn(ENVS, generator=self.noise)
        self.place = torch.where(over, drawn, self.place)
        self.speed = torch.where(over, 0.0, self.speed)
        parts = {"reward": 1 - self.place.abs(), "terminated": over, "done": over}
        parts = {name: one.unsqueeze(-1) for name, one in parts.items()}
        parts["valid"] = torch.ones(ENVS, 1, dtype=torch.bool)  # which no reset shows
        return TensorDict({**self.shown(over), **parts}, [ENVS])


def rollout(env, actor, td):
    steps = []
    for _ in range(STEPS):
        with torch.no_grad():
            actor(td)
        after = env.step(td["push"])
        hidden = td["next", "hidden"]
        following = after.clone().set("hidden", hidden)
        steps.append(td.clone().set("next", following))
        hidden = torch.where(after["done"].unsqueeze(-1), 0.0, hidden)
        td = after.select("position", "is_init").set("hidden", hidden)
    return torch.stack(steps, 1), td
'''


def own_env() -> str:
    """The script with that env."""
    text = (OTHERS / f"{NAME}.py").read_text()
    head, rest = text.split("def last_seen")
    main = rest[rest.index("def main") :]
    made = main[: main.index("    env = Sync")] + "    env = Drift()\n"
    made += main[main.index("    actor, critic = ") :]
    shows = "torch.as_tensor(env.reset(seed=0)[0])"
    assert shows in made
    return head + OWN_ENV.lstrip("\n") + "\n\n" + made.replace(shows, 'env.reset()["position"]')


def test_the_loop_is_verified(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, (OTHERS / f"{NAME}.py").read_text())
    code, found, _ = run(rnncheck, path)
    assert code == ExitCode.VERIFIED, found["notices"]


@pytest.mark.parametrize(
    ("codes", "changes"),
    [
        pytest.param("CL403,BD3", [FORGETS_ENDS, NOT_BEGUN], id="nothing begins anew"),
        pytest.param("CL401", [FROM_ZEROS], id="acts from zeros", marks=SLOW),
        pytest.param("RP5", [STATE_BEHIND], id="the state behind the step", marks=SLOW),
        pytest.param("RP502", [SINGLE_STEPS], id="single steps"),
        pytest.param("VL603", [SHORT, NEXT_BEGUN], id="the next episode's start behind a limit"),
        pytest.param("VL604", [IN_STEPS], id="valued step by step", marks=SLOW),
    ],
)
def test_faults_are_named(
    rnncheck: Any, tmp_path: Path, codes: str, changes: list[tuple[str, str]]
) -> None:
    code, found = judged_other(rnncheck, tmp_path, NAME, codes, *changes)
    assert code == ExitCode.FAILED
    assert any(one.startswith(tuple(codes.split(","))) for one in found)


def test_limits_with_what_was_seen_last(rnncheck: Any, tmp_path: Path) -> None:
    code, found = judged_other(rnncheck, tmp_path, NAME, "VL603", SHORT)
    assert (code, found) == (ExitCode.VERIFIED, [])


def test_an_env_of_ones_own_gives_tensordicts(rnncheck: Any, tmp_path: Path) -> None:
    code, found = judged(rnncheck, tmp_path, "WR,CL,RP", own_env())
    assert code == ExitCode.VERIFIED, found


def test_its_faults_are_named(rnncheck: Any, tmp_path: Path) -> None:
    begins = ('torch.where(after["done"].unsqueeze(-1), 0.0, hidden)', "hidden")
    code, found = judged(rnncheck, tmp_path, "CL403", own_env(), begins)
    assert code == ExitCode.FAILED
    assert "CL403" in found


AGENT = [
    (
        "def rollout(env, actor, td):",
        "class Agent:\n"
        "    def __init__(self, actor):\n"
        "        self.actor = actor\n\n"
        "    def act(self, td):\n"
        "        with torch.no_grad():\n"
        '            return self.actor(td)["push"].numpy()\n\n\n'
        "def rollout(env, actor, td):",
    ),
    ("    steps = []\n", "    steps, agent = [], Agent(actor)\n"),
    ("        with torch.no_grad():\n            actor(td)\n        after", "        after"),
    ('env.step(td["push"].numpy())', "env.step(agent.act(td))"),
]


def test_an_object_may_act_on_them(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, (OTHERS / f"{NAME}.py").read_text(), *AGENT)
    code, found, _ = run(rnncheck, "--select", "WR,CL,EQ203,RP5", path)
    assert code == ExitCode.VERIFIED, found["notices"]
    assert any("ClipPPOLoss" in str(one) for one in found["stages"])


def test_what_is_not_shown_as_it_is_is_said(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, (OTHERS / f"{NAME}.py").read_text(), NORMALISED)
    code, found, _ = run(rnncheck, "--select", "WR", path)
    assert code == ExitCode.NOT_SHOWN
    assert "what the env shows is in no entry ahead of who acts" in " ".join(found["notices"])
