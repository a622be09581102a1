"""Several losses in one update: each is judged, or named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.faults import TWO
from tests.watching.scripts import failed, planted, run
from tests.watching.test_endings import ACTS

OPTIMISERS = """
from torchrl.objectives import ReinforceLoss
mine = torch.optim.SGD(net.parameters(), 0.01)
other = torch.optim.SGD(value.parameters(), 0.01)
def to_go(rows):
    found, after = [], torch.zeros(1)
    for step in reversed(range(rows.shape[1])):
        after = rows["next", "reward"][:, step, 0] + {}after
        found.append(after)
    return torch.stack(found[::-1], 1)
"""
KEPT_APART = "~rows['next', 'done'][:, step, 0] * "
POLICY = 'chosen = actor.get_dist(rows.exclude("next")).log_prob(rows["action"])'
VALUE = 'judged = value(rows.exclude("next"))["state_value"].squeeze(-1)'
FUNCTIONS = f"""
def policy_loss(rows):
    with set_recurrent_mode(True):
        {POLICY}
    return -(chosen * rows["next", "reward"].squeeze(-1)).mean()
def value_loss(rows):
    with set_recurrent_mode(True):
        {VALUE}
    return (to_go(rows) - judged).pow(2).mean()
for _ in range(3):
    mine.zero_grad()
    policy_loss(batch).backward()
    mine.step()
    other.zero_grad()
    value_loss(batch).backward()
    other.step()
"""
LINES = f"""
for rows in [batch, batch, batch]:
    with set_recurrent_mode(True):
        {POLICY}
    mine.zero_grad()
    (-(chosen * rows["next", "reward"].squeeze(-1)).mean()).backward()
    mine.step()
    with set_recurrent_mode(True):
        {VALUE}
    other.zero_grad()
    (to_go(rows) - judged).pow(2).mean().backward()
    other.step()
"""
BESIDE = f"""
loss_module = ReinforceLoss(actor, value)
with torch.no_grad(), set_recurrent_mode(True):
    GAE(gamma=0.9, lmbda=0.9, value_network=value, shifted=True)(batch)
rows = batch
for _ in range(2):
    losses = loss_module(batch)
    losses["loss_actor"].backward(retain_graph=True)
    losses["loss_value"].backward()
    mine.step()
    other.step()
    with set_recurrent_mode(True):
        {VALUE}
    judged.mean().backward()
    mine.step()
"""


def script(folder: Path, loop: str, apart: str = KEPT_APART) -> Path:
    path = folder / "script.py"
    acts = ACTS.replace("rollout(24", "rollout(60")
    path.write_text(acts + OPTIMISERS.format(apart) + loop)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("loop", [FUNCTIONS, LINES], ids=["functions", "lines"])
@pytest.mark.parametrize("apart", [KEPT_APART, ""], ids=["healthy", "second-leaks"])
def test_the_second_loss_is_judged_as_well(
    rnncheck: Any, tmp_path: Path, loop: str, apart: str
) -> None:
    path = script(tmp_path, loop, apart)
    code, found, _ = run(rnncheck, "--select", "LS701", "--select", "GR803", path)
    assert failed(found) == ([] if apart else ["LS701"])
    assert code == (ExitCode.VERIFIED if apart else ExitCode.FAILED)
    assert not [one for one in found["notices"] if "not judged" in one]


@pytest.mark.slow
def test_what_is_not_judged_is_named(rnncheck: Any, tmp_path: Path) -> None:
    words = "on more than loss modules gave: the rest is not judged"
    path = script(tmp_path, BESIDE)
    _, found, _ = run(rnncheck, "--select", "WR103", path)
    (named,) = [one for one in found["notices"] if "`backward` is called" in one]
    assert named.endswith(words)
    place = named.removesuffix(f": `backward` is called {words}")
    line = path.read_text().splitlines()[int(place.rpartition(":")[2]) - 1]
    assert line.strip() == "judged.mean().backward()"


RUNS_ON = (" * (~done[:, step])", "")
CRITIC = """    critic = TensorDictSequential(
        memories["critic"], ValueOperator(nn.Linear(HIDDEN, 1), in_keys=["embed_critic"])
    )
"""
NO_MEMORY = """    del memories["critic"]
    critic = ValueOperator(nn.Linear(4, 1), in_keys=["observation"])
"""
TRAINS = (
    "        for rows in data.split(2):\n",
    """        for rows in data.split(2):
            loss = critic_loss(rows)["loss_critic"]
            critic_optim.zero_grad()
            loss.backward()
            critic_optim.step()
""",
)
UNTRAINED = (
    """            loss = critic_loss(rows)["loss_critic"]
            critic_optim.zero_grad()
            loss.backward()
            critic_optim.step()
""",
    """            with torch.no_grad():
                loss = critic_loss(rows)["loss_critic"]
""",
)


@pytest.mark.slow
def test_a_finding_names_the_loss_module_and_its_line(rnncheck: Any, tmp_path: Path) -> None:
    path, kept = planted(tmp_path, TWO, RUNS_ON), tmp_path / "seen.rnncheck"
    _, found, _ = run(rnncheck, "--select", "LS701", "--save", kept, path, cwd=tmp_path)
    (finding,) = found["checks"][0]["findings"]
    line = finding["source"]["line"]
    assert "critic_loss(rows)" in path.read_text().splitlines()[line - 1]
    assert finding["details"]["loss"] == f"CriticLoss (two_losses.py:{line})"
    assert finding["message"].startswith(finding["details"]["loss"])
    again = rnncheck("verify", "--select", "LS701", str(kept), cwd=tmp_path)
    assert again.returncode == ExitCode.FAILED and "CriticLoss" in again.stdout


@pytest.mark.slow
@pytest.mark.parametrize("by_step", [False, True], ids=["healthy", "actor-by-step"])
def test_memory_is_asked_of_the_loss_that_trains_it(
    rnncheck: Any, tmp_path: Path, by_step: bool
) -> None:
    """The critic, trained first, has no memory."""
    changes = [(CRITIC, NO_MEMORY), TRAINS]
    if by_step:
        actor = "self.actor_network_params.to_module"
        changes.append(
            (f"set_recurrent_mode(True), {actor}", f"set_recurrent_mode(False), {actor}")
        )
    path = planted(tmp_path, TWO, *changes)
    codes = ("LS703", "GR801", "GR803")
    _, found, _ = run(rnncheck, *(part for code in codes for part in ("--select", code)), path)
    assert failed(found) == (["LS703", "GR801"] if by_step else [])
    assert {one["outcome"] for one in found["checks"]} <= {"passed", "failed"}


@pytest.mark.slow
def test_a_loss_that_is_not_trained_on_is_named(rnncheck: Any, tmp_path: Path) -> None:
    path = planted(tmp_path, TWO, RUNS_ON, UNTRAINED)
    _, found, _ = run(rnncheck, "--select", "LS701", path)
    assert failed(found) == []
    assert [one for one in found["notices"] if "CriticLoss was called as well" in one]
