"""What a run showed decides its exit code: nothing that could not be looked at is verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode

PIPELINES = Path(__file__).parents[2] / "fixtures" / "pipelines"
SPEC = """\
schema: 1
name: no-sequence-pass
env:
  use: GymEnv
  env_name: CartPole-v1
  transforms:
    - InitTracker
    - {use: TensorDictPrimer, h: {use: Unbounded, shape: [16]}, expand_specs: true}
policy:
  modules:
    - {factory: "own_habits:StepsAlone"}
    - {use: MLP, in_keys: [embed], out_keys: [action_value], num_cells: [], out_features: auto}
    - QValueModule
collect: {use: Collector, frames_per_batch: 75, batches: 2}
"""
RAISED = "recurrent mode raises on the policy (NotImplementedError: this cell has no sequence pass)"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A pipeline that acts rightly, and whose recurrent pass is not written yet."""
    for name in ("own_habits.py", "plain_cell.py"):
        (tmp_path / name).write_text((PIPELINES / name).read_text())
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


def verified(rnncheck: Any, spec: Path, *args: str) -> tuple[int, dict[str, Any]]:
    done = rnncheck("verify", str(spec), "--report", "json", *args)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def standings(run: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["standing"] for one in run["guarantees"]}


def test_what_cannot_be_looked_at_is_not_verified(rnncheck: Any, spec: Path) -> None:
    code, run = verified(rnncheck, spec)
    assert (code, run["verdict"]) == (ExitCode.NOT_SHOWN, "not-shown")
    found = standings(run)
    assert found["agreement"] == found["isolation"] == "not-shown"
    assert (found["data"], found["targets"], found["learning"]) == ("shown", *2 * ["not-asked"])
    (because,) = [g["because"] for g in run["guarantees"] if g["name"] == "agreement"]
    assert because == f"EQ201: {RAISED}"
    assert "failed" not in {check["outcome"] for check in run["checks"]}


def test_it_is_told_with_the_reason_and_what_to_do(rnncheck: Any, spec: Path) -> None:
    done = rnncheck("verify", str(spec))
    shown = " ".join(done.stdout.split())
    assert "not shown isolation: no trajectory reaches another" in shown
    assert f"because BD301: {RAISED}" in shown
    assert "exit 4 (not shown)" in shown
    assert "next: rnncheck rule" in shown


def test_it_may_be_accepted_until_a_day(rnncheck: Any, spec: Path) -> None:
    _, run = verified(rnncheck, spec)
    open_ = [name for name, standing in standings(run).items() if standing == "not-shown"]
    listed = "".join(
        f"    - {{guarantee: {name}, reason: the pass is on its way, until: 2099-12-31}}\n"
        for name in open_
    )
    spec.write_text(f"{SPEC}verify:\n  accept:\n{listed}")
    code, run = verified(rnncheck, spec)
    assert code == ExitCode.VERIFIED
    accepted = {g["name"]: g["accepted"] for g in run["guarantees"] if g["accepted"]}
    assert accepted == dict.fromkeys(open_, "the pass is on its way (until 2099-12-31)")


def test_a_selection_that_was_answered_is_verified(rnncheck: Any, spec: Path) -> None:
    code, run = verified(rnncheck, spec, "--select", "BD302", "--select", "WR")
    assert code == ExitCode.VERIFIED
    assert {name for name, one in standings(run).items() if one == "shown"} == {"memory", "data"}


def test_without_a_training_path_the_verdict_says_so(rnncheck: Any, spec: Path) -> None:
    done = rnncheck("verify", str(spec), "--select", "BD302", "-q")
    assert done.stdout.startswith("acting verified, training not checked: 1 passed")
