"""Pipelines on an accelerator get the verdicts that they get on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pretend.device import COMPILER, NAME, build

ROOT = Path(__file__).parent.parent.parent
CHEAP = ("training/q_rows",)  # slices and a target network
MORE = (
    "training/own_gae",  # GAE, PPO, 4 envs
    "specs/cartpole_dqn",
    "specs/two_layer_lstm",
    "specs/gru_actor_critic",
    "training/ppo_slices",
    "training/q_slices",
    "training/q_burn_in_by_hand",
    "training/ls703_loss_ignores_memory",
    "training/rp502_steps_not_consecutive",
    "broken/bd301_state_crosses_reset",
    "broken/cl406_replay_differs_from_collection",
    "broken/wr103_missing_state_primer_near_miss",
)

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("device"))


def verdicts(library: Path, device: str, names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    paths = [str(ROOT / "fixtures" / f"{name}.yaml") for name in names]
    command = [sys.executable, "-m", "tests.pretend.verdicts", str(library), device, *paths]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_an_accelerator_gets_the_verdicts_of_the_cpu(library: Path) -> None:
    there = verdicts(library, NAME, CHEAP)
    assert there == verdicts(library, "cpu", CHEAP)
    assert {said["LS701"] for said in there.values()} == {"passed"}


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_so_do_faults_and_other_pipelines(name: str, library: Path) -> None:
    (there,) = verdicts(library, NAME, (name,)).values()
    (here,) = verdicts(library, "cpu", (name,)).values()
    assert there == here


@pytest.mark.slow
def test_the_device_is_as_strict_as_cuda(library: Path) -> None:
    code = f"""
import torch
from pathlib import Path
from tests.pretend.device import load
load(Path({str(library)!r}))
there, here = torch.ones(2, 3, device="npu"), torch.ones(2, 3)
for wrong in (lambda: there + here, lambda: there.numpy(), lambda: torch.where(here > 0, there, 0)):
    try:
        wrong()
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__)
assert there.to("cpu").equal(here) and float((there * 2).sum()) == 12
there[torch.tensor([0])] = 0.0  # indices of the CPU are taken
assert float(there.sum()) == 3
"""
    env: Any = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["RuntimeError", "TypeError", "RuntimeError"]


def test_tf32_is_off_while_faults_are_judged_and_as_set_for_precision(library: Path) -> None:
    code = f"""
import torch
from pathlib import Path
from tests.pretend.device import load
load(Path({str(library)!r}))
from rnncheck.pipeline.placing import precision_as_set, tf32_allowed
from rnncheck.pipeline.subject.modes import measuring
torch.backends.cudnn.allow_tf32 = True
with measuring(recurrent=True):
    print(any(tf32_allowed()))
with measuring(recurrent=False):
    print(any(tf32_allowed()))
with precision_as_set(), measuring(recurrent=True):
    print(any(tf32_allowed()))
print(any(tf32_allowed()))
"""
    env: Any = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "True", "True"]
