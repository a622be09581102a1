"""``rnncheck run``: what a script makes of its batch ahead of a loss of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.extent import rows
from tests.watching.ahead_script import AHEAD, AHEAD_FAULTS, HEAD, PADDED, PADDED_FAULTS
from tests.watching.scripts import failed, run

SCRIPTS = {"ahead": (AHEAD, AHEAD_FAULTS), "padded": (PADDED, PADDED_FAULTS)}
PLANTED = [(name, code) for name, (_, faults) in SCRIPTS.items() for code in faults]


def ran(rnncheck: Any, folder: Path, text: str, *options: str) -> tuple[int, dict[str, Any]]:
    (folder / "train.py").write_text(text)
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, told


@pytest.fixture(scope="module")
def healthy(rnncheck: Any, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How the script without a fault ends, asked what its faults are named by."""
    asked = [part for code in AHEAD_FAULTS for part in ("--select", code)]
    return ran(rnncheck, tmp_path_factory.mktemp("ahead"), AHEAD, *asked)[0]


@pytest.mark.parametrize("code", rows(AHEAD_FAULTS, ["VL601"]))
def test_targets_that_are_made_ahead_are_judged(
    rnncheck: Any, tmp_path: Path, code: str, healthy: int
) -> None:
    """The loss is a function; the first collected rows begin with episodes."""
    text = AHEAD.replace(*AHEAD_FAULTS[code], 1)
    assert text != AHEAD
    ended, told = ran(rnncheck, tmp_path, text, "--select", code)
    assert (ended, failed(told)) == (ExitCode.FAILED, [code])
    assert healthy == ExitCode.VERIFIED


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_healthy_scripts_are_verified(rnncheck: Any, tmp_path: Path, name: str) -> None:
    ended, told = ran(rnncheck, tmp_path, SCRIPTS[name][0])
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), PLANTED)
def test_their_faults_are_named(rnncheck: Any, tmp_path: Path, name: str, code: str) -> None:
    text, faults = SCRIPTS[name]
    ended, told = ran(rnncheck, tmp_path, text.replace(*faults[code], 1))
    assert (ended, code in failed(told)) == (ExitCode.FAILED, True)


OWN_ARGUMENTS = (
    HEAD.replace("LIMIT", "200")
    + """
import multiprocessing

from torchrl.collectors import Collector

multiprocessing.set_start_method("fork")  # TorchRL has chosen another one
value = nn.Linear(24, 1)
optim = torch.optim.Adam([*policy.parameters(), *value.parameters()], 1e-3)


def update(batch, policy, critic, env):
    with set_recurrent_mode(True):
        td = batch.select("observation", "is_init", "recurrent_state").clone()
        dist = policy.get_dist(td)
    told, guess = dist.log_prob(batch["action"]), critic(td["feat"]).squeeze(-1)
    loss = guess.square().mean() - (told * (1.0 - guess.detach())).mean() / env
    optim.zero_grad()
    loss.backward()
    optim.step()


for data in Collector(env, policy, frames_per_batch=60, total_frames=-1):
    update(data, policy, value, ENVS)
"""
)


@pytest.mark.slow
def test_a_loss_keeps_its_own_arguments(rnncheck: Any, tmp_path: Path) -> None:
    """They have the names of what functions of a spec are handed; the collector has no end, and
    multiprocessing a start method of the script's."""
    ended, told = ran(rnncheck, tmp_path, OWN_ARGUMENTS, "--select", "LS", "--select", "GR")
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])
