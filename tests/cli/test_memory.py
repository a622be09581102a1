"""``rnncheck memory`` as it is typed: its plan, its exit codes, Ctrl-C, and going on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.small import START
from tests.warm import cold

Runner = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "memory"
QUICK = ("--set", "memory.recorded=2", "--set", "memory.episodes=8", "--set", "env.steps=8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A delay line of its own, as ``rnncheck.yaml``."""
    shutil.copy(FIXTURES / "planted.py", tmp_path)
    shutil.copy(FIXTURES / "delay_line.yaml", tmp_path / "rnncheck.yaml")
    return tmp_path


def stored(folder: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((folder / ".rnncheck" / "runs" / "latest.json").read_text())
    return run


def test_the_plan_states_the_cost_and_runs_nothing(rnncheck: Runner, folder: Path) -> None:
    done = rnncheck("memory", "--plan", cwd=folder)
    assert done.returncode == 0, done.stderr
    # 6 treatments of 16 episodes of at most 40 steps
    assert "returns: does it matter? at most 3840 calls of the policy" in done.stdout
    assert "nothing was run" in done.stdout
    assert not (folder / ".rnncheck").exists()


def test_a_memory_that_nothing_needs_fails_under_strict_alone(
    rnncheck: Runner, folder: Path
) -> None:
    deaf = ("policy.kind=deaf", "env.size=1", "env.delay=0", "memory.episodes=64")
    settings = [part for one in deaf for part in ("--set", one)]
    done = rnncheck("memory", "--strict", *QUICK, *settings, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "warning: memory-unused" in done.stdout
    assert "exit 1 (something was found)" in done.stdout
    again = rnncheck("report", str(folder), "--report", "markdown")
    assert "does as well without memory" in again.stdout


def test_a_policy_without_state_has_no_memory_to_measure(rnncheck: Runner, folder: Path) -> None:
    text = (folder / "planted.py").read_text()
    plain = text.replace('["observation", "h", "is_init"]', '["observation"]').replace(
        ', ("next", "h")]', "]"
    )
    stateless = plain.replace(
        'td["action"], td["next", "h"] = self.step(td["observation"], td["h"])',
        'td["action"] = td["observation"] * self.scale',
    )
    (folder / "planted.py").write_text(stateless)
    done = rnncheck("memory", *QUICK, cwd=folder)
    assert done.returncode == 4
    assert "the policy carries no state" in done.stdout
    budget = "gate.budgets=[{memory: {reach_min: 3}}]"
    gated = rnncheck("gate", "--no-verify", *QUICK, "--set", budget, cwd=folder)
    assert gated.returncode == 1
    assert "policy: the policy carries no state" in gated.stdout


def test_a_critic_that_raises_leaves_its_questions_open(rnncheck: Runner, folder: Path) -> None:
    """What the policy told stands; the questions are asked again once the critic is mended."""
    critic = ("--set", 'critic={factory: "planted:Values"}')
    text = (folder / "planted.py").read_text()
    wanted = 'x, h = td["observation"], td["value_h"]'
    assert wanted in text
    (folder / "planted.py").write_text(text.replace(wanted, 'raise ValueError("of the critic")'))
    done = rnncheck("memory", *QUICK, *critic, cwd=folder)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "1 of 4 questions answered" in done.stdout
    found = stored(folder)["memory"]
    assert found["answered"] == ["returns"]
    assert [one["output"] for one in found["curves"]] == ["action", "state h", "action"]
    assert [one.split(":")[0] for one in found["untold"]] == ["horizon", "state", "replay"]
    assert all("the critic: ValueError: of the critic" in one for one in found["untold"])
    assert found["advice"] == []


def test_outputs_that_are_no_numbers_are_no_horizon(rnncheck: Runner, folder: Path) -> None:
    text = (folder / "planted.py").read_text()
    plain = 'td["state_value"] = td["next", "value_h"] = self.rate * h + x'
    assert plain in text
    bad = 'td["state_value"] = td["next", "value_h"] = (self.rate * h + x) * float("nan")'
    (folder / "planted.py").write_text(text.replace(plain, bad))
    critic = ("--set", 'critic={factory: "planted:Values"}')
    done = rnncheck("memory", *QUICK, *critic, cwd=folder)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "the critic: outputs, or their gradients, hold NaN" in done.stdout
    assert "horizon" not in stored(folder)["memory"]["answered"]


@pytest.mark.parametrize("option", ["--weights", "--older"])
def test_weights_that_are_not_there_are_named(rnncheck: Runner, folder: Path, option: str) -> None:
    done = rnncheck("memory", option, "nope.pt", cwd=folder)
    assert done.returncode == 2
    assert f"{option}: there is no weights file 'nope.pt'" in done.stderr
    assert "relative to the folder that the command runs in" in done.stderr
    (folder / "nap.pt").write_bytes(b"")
    assert "did you mean 'nap.pt'?" in rnncheck("memory", option, "nope.pt", cwd=folder).stderr


def resumed(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Gone on with in a process like the first: one that has imported torch before it was asked
    counts its threads in another way."""
    env = os.environ | {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    return cold(START, "memory", "--resume", *args, *QUICK, cwd=folder, env=env)


@pytest.mark.slow
def test_what_was_found_before_an_interruption_is_kept_and_gone_on_with(
    rnncheck: Runner, folder: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", START, "memory", *QUICK, "--report", "jsonl"],
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if '"memory-measured"' in line:
                os.killpg(process.pid, signal.SIGINT)
                break
        process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    run = stored(folder)
    first = run["memory"]
    assert "horizon" in first["answered"]
    assert "returns" not in first["answered"]
    assert "rnncheck memory --resume" in run["notices"][-1]

    done = resumed(folder)
    assert done.returncode == 0, done.stderr
    whole = stored(folder)["memory"]
    assert whole["answered"] == ["horizon", "state", "replay", "returns"]
    assert whole["curves"] == first["curves"]

    left = resumed(folder, "--plan").stdout
    assert "calls of the policy" not in left  # nothing is left to ask
    other = rnncheck("memory", "--resume", *QUICK, "--seed", "3", cwd=folder)
    assert other.returncode == 2
    assert "its spec is another" in other.stderr


@pytest.mark.slow
def test_a_gate_holds_a_budget_of_memory(rnncheck: Runner, folder: Path) -> None:
    for least, code in ((3, 0), (9, 1)):
        budget = f"gate.budgets=[{{memory: {{reach_min: {least}}}}}]"
        done = rnncheck("gate", "--no-verify", *QUICK, "--set", budget, cwd=folder)
        assert done.returncode == code, done.stdout + done.stderr
        assert "reach of the memory" in done.stdout
