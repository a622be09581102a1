"""Collection as users do it, through the CLI: a healthy spec of each kind, and one with a fault."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rnncheck.cli.app import app
from rnncheck.results.exit_codes import ExitCode
from tests.extent import rows
from tests.small import START

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CHECKS = ("WR103", "WR104", "CL", "RP")

ENV = """\
env:
  use: GymEnv
  env_name: CartPole-v1
  categorical_action_encoding: true
  transforms: [InitTracker]
"""
POLICY = """\
policy:
  modules:
    - {use: LSTMModule, in_key: observation, out_key: features, hidden_size: 8}
    - {use: MLP, in_keys: [features], out_keys: [action_value], num_cells: [], out_features: auto}
    - QValueModule
"""
REPLAY = """\
replay:
  storage: {use: LazyTensorStorage, max_size: 1000}
  sampler: {use: SliceSampler, slice_len: 8, strict_length: false}
  batch_size: 32
"""
ROWS = ENV + "  workers: 3\n"
UNPRIMED = ENV + "  primers: manual\n"
CELL = 'env: {factory: "collectors:make_env", size: 8}\npolicy: {factory: "collectors:make_cell"}\n'
COLLECTOR = "use: Collector, frames_per_batch: 60, batches: 3"
STORED = f"{COLLECTOR}, replay_buffer: true"
RANDOM = "init_random_frames: 60"


def spec(collect: str, *parts: str) -> str:
    text = "".join(parts) or ENV
    text = text if "policy:" in text else text + POLICY
    return f"schema: 1\nname: collection\n{text}collect: {{{collect}}}\n"


def own(name: str, **settings: Any) -> str:
    said = "".join(f", {key}: {json.dumps(value)}" for key, value in settings.items())
    return f'factory: "collectors:{name}", batches: 6{said}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(HERE / "collectors.py", tmp_path)
    return tmp_path


def verify(folder: Path, text: str, *args: str) -> Result:
    path = folder / "rnncheck.yaml"
    path.write_text(text)
    chosen = args or tuple(part for code in CHECKS for part in ("--select", code))
    return CliRunner().invoke(app, ["verify", str(path), "--report", "json", "-q", *chosen])


def failed(done: Result) -> set[str]:
    checks = json.loads(done.stdout)["checks"]
    return {check["code"] for check in checks if check["outcome"] == "failed"}


def trouble(done: Result) -> str:
    stages = json.loads(done.stdout)["stages"]
    return "\n".join(stage["detail"] for stage in stages if stage["outcome"] == "error")


HEALTHY = {
    "stored": spec(STORED, ENV, REPLAY),
    "stored in the background": spec(f"{STORED}, background: true", ENV, REPLAY),
    "stored step by step": spec(f"{STORED}, extend_buffer: false", ENV, REPLAY),
    "stored in a ring": spec(STORED, ENV, REPLAY.replace("1000", "130")),
    "stored rows": spec(STORED, ROWS, REPLAY.replace("1000", "1000, ndim: 2")),
    "stored without next": spec(f"{STORED}, compact_obs: true", ENV, REPLAY),
    "stored random steps": spec(f"{STORED}, {RANDOM}, reset_at_each_iter: true", CELL, REPLAY),
    "random steps": spec(f"{COLLECTOR}, {RANDOM}, reset_at_each_iter: true"),
    "reset each time": spec(f"{COLLECTOR}, reset_at_each_iter: true"),
    "trajectories": spec(f"{COLLECTOR}, split_trajs: true"),
    "short trajectories": spec(f"{COLLECTOR}, max_frames_per_traj: 12", ROWS),
    "no next observations": spec(f"{COLLECTOR}, compact_obs: true"),
    "trusted policy": spec(f"{COLLECTOR}, trust_policy: true"),
    "rows": spec(COLLECTOR, ROWS),
    "marked rows": spec(own("joined_rows", mark=True), ROWS),
    "own random steps": spec(own("random_first", reset=True)),
    "own random rollout": spec(own("random_rollout")),
    "two collectors in turns": spec(own("in_turns")),
    "loaded policy": spec(own("own_policy", loaded=True)),
    "an own cell": spec(COLLECTOR, CELL),
}


# What differs from another row in the collector alone, and not in what is judged.
ALIKE = {
    "stored in the background",
    "stored step by step",
    "own random steps",
    "reset each time",
    "no next observations",
}

# Further ways to store and to collect without a fault.
LATER = {
    "short trajectories",
    "stored in a ring",
    "stored rows",
    "stored without next",
    "trusted policy",
}


@pytest.mark.first(4)
@pytest.mark.parametrize("name", rows(HEALTHY, ALIKE | LATER))
def test_what_is_right_passes(folder: Path, name: str) -> None:
    done = verify(folder, HEALTHY[name])
    assert (done.exit_code, failed(done)) == (ExitCode.VERIFIED, set()), done.output


def test_a_cell_that_never_asks_for_the_mode_has_none_to_judge(folder: Path) -> None:
    done = verify(folder, HEALTHY["an own cell"], "--select", "BD306", "--select", "EQ201")
    assert (done.exit_code, failed(done)) == (ExitCode.VERIFIED, set()), done.output
    outcomes = {c["code"]: c["outcome"] for c in json.loads(done.stdout)["checks"]}
    assert outcomes == {"BD306": "passed", "EQ201": "not-applicable"}


NO_MEMORY = {"WR103", "CL401", "CL406"}
BROKEN = {
    "stored": (spec(STORED, UNPRIMED, REPLAY), NO_MEMORY | {"RP507"}),
    "stored in the background": (
        spec(f"{STORED}, background: true", UNPRIMED, REPLAY),
        NO_MEMORY | {"RP507"},
    ),
    "stored and unmarked": (
        spec(STORED, ENV, REPLAY.replace("replay:", "replay:\n  use: ReplayBuffer")),
        {"RP501"},
    ),
    "stored random steps": (spec(f"{STORED}, {RANDOM}", CELL, REPLAY), {"CL408"}),
    "stored random steps in a ring": (
        spec(f"{STORED}, {RANDOM}", CELL, REPLAY.replace("1000", "150")),
        {"CL408"},
    ),
    "random steps": (spec(f"{COLLECTOR}, {RANDOM}"), {"CL408"}),
    "own random steps": (spec(own("random_first", reset=False)), {"CL408"}),
    "reset each time": (spec(f"{COLLECTOR}, reset_at_each_iter: true", UNPRIMED), NO_MEMORY),
    "trajectories": (spec(f"{COLLECTOR}, split_trajs: true", UNPRIMED), NO_MEMORY),
    "no next observations": (spec(f"{COLLECTOR}, compact_obs: true", UNPRIMED), NO_MEMORY),
    "joined rows": (spec(own("joined_rows", mark=False), ROWS), {"CL405", "CL406"}),
    "recurrent mode": (spec(own("in_recurrent_mode"), ROWS), {"CL401", "CL402", "CL406"}),
    "another policy": (spec(own("own_policy", loaded=False)), {"CL402", "CL406"}),
}


@pytest.mark.first(4)
@pytest.mark.parametrize("name", rows(BROKEN, ALIKE | {"trajectories"}))
def test_what_is_wrong_is_named(folder: Path, name: str) -> None:
    text, codes = BROKEN[name]
    chosen = [part for code in CHECKS for part in ("--select", code)]
    assert failed(verify(folder, text, "--no-repair", *chosen)) == codes


RAISES = [
    (spec(f"{STORED}, {RANDOM}", ENV, REPLAY), "leave `replay_buffer` out"),
    (spec(STORED, ROWS, REPLAY), "ndim: 2"),
]


@pytest.mark.parametrize(("text", "said"), RAISES, ids=["random", "rows"])
def test_what_cannot_be_stored_or_sampled_says_the_way_out(
    folder: Path, text: str, said: str
) -> None:
    done = verify(folder, text)
    assert done.exit_code == ExitCode.INTERNAL
    assert said in trouble(done)


def test_a_run_can_be_repeated(folder: Path) -> None:
    text, _ = BROKEN["another policy"]
    chosen = ("--select", "CL", "--no-repair")
    both = [verify(folder, text, *chosen).stdout for _ in range(2)]
    first, second = (json.loads(one)["checks"] for one in both)
    measured = [[f["measured"] for c in one for f in c["findings"]] for one in (first, second)]
    assert measured[0] == measured[1] != []


@pytest.mark.parametrize(("size", "code"), [(0, "WR103"), (6, "WR104"), (8, None)])
def test_a_state_that_the_env_does_not_give_is_a_finding_in_a_module_list_too(
    folder: Path, size: int, code: str | None
) -> None:
    env = f'env: {{factory: "collectors:make_env", size: {size}}}\n'
    lines = POLICY.splitlines(keepends=True)
    lines[2] = '    - {factory: "collectors:make_embedding"}\n'
    policy = "".join(lines).replace("[features]", "[embed]")
    done = verify(folder, spec(COLLECTOR, env, policy), "--select", "WR")
    assert failed(done) == ({code} if code else set())


# --- worker processes ----------------------------------------------------------------------------

MULTI = "use: MultiSyncCollector, workers: 2, frames_per_batch: 60, batches: 2"


def left_over(session: int) -> list[str]:
    """Processes of a session that still run."""
    found = subprocess.run(
        ["ps", "-o", "stat=,args=", "-s", str(session)], capture_output=True, text=True
    )
    return [line for line in found.stdout.splitlines() if not line.startswith("Z")]


def troubled(folder: Path, how: str, collect: str, *, limit: int, replay: str = "") -> list[str]:
    note = folder / "note.txt"
    env = f'env: {{factory: "collectors:make_troubled_env", how: {how}, note: {note}}}\n'
    path = folder / "rnncheck.yaml"
    path.write_text(spec(collect, env, replay) + f"verify: {{timeout: {limit}}}\n")
    return [sys.executable, "-c", START, "verify", str(path), "--report", "json", "--select", "CL"]


def started(command: list[str], folder: Path) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        command, cwd=folder, env=env, text=True, start_new_session=True, **pipes
    )


TROUBLES = [
    ("die", MULTI, "", "exit code 3"),
    ("raise", MULTI, "", "late trouble"),
    ("die", f"{MULTI}, replay_buffer: true, background: true", REPLAY, "exit code 3"),
    ("hang", MULTI, "", "did not finish within 20 s"),
    ("hang", f"{MULTI}, replay_buffer: true, background: true", REPLAY, "within 20 s"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "collect", "replay", "said"), TROUBLES)
def test_a_worker_in_trouble_is_an_outcome_and_leaves_nothing_behind(
    folder: Path, how: str, collect: str, replay: str, said: str
) -> None:
    limit = 20 if how == "hang" else 120
    command = troubled(folder, how, collect, limit=limit, replay=replay)
    with started(command, folder) as process:
        out, err = process.communicate(timeout=300)
        assert process.returncode == ExitCode.INTERNAL, err
        assert said in "".join(stage["detail"] for stage in json.loads(out)["stages"])
        assert not left_over(process.pid)


@pytest.mark.slow
@pytest.mark.parametrize("collect", [MULTI, own("in_processes")], ids=["named", "own"])
def test_an_interruption_ends_workers_that_hang(folder: Path, collect: str) -> None:
    command = troubled(folder, "hang", collect, limit=300)
    with started(command, folder) as process:
        while not (folder / "note.txt").exists() and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        assert process.returncode == ExitCode.INTERRUPTED
        assert not left_over(process.pid)


@pytest.mark.slow
def test_a_mode_of_this_process_does_not_reach_the_workers_of_an_own_collector(
    folder: Path,
) -> None:
    done = verify(folder, spec(own("in_processes"), ENV + "  workers: 2\n"))
    assert (done.exit_code, failed(done)) == (ExitCode.VERIFIED, set())
    (own_check,) = [c for c in json.loads(done.stdout)["checks"] if c["code"] == "CL407"]
    assert own_check["outcome"] == "passed"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Sync", "Async"])
def test_what_workers_write_into_the_buffer_is_judged_worker_by_worker(
    folder: Path, kind: str
) -> None:
    collect = f"{MULTI}, replay_buffer: true, background: true".replace("Sync", kind)
    done = verify(folder, spec(collect, ENV, REPLAY))
    assert (done.exit_code, failed(done)) == (ExitCode.VERIFIED, set())


@pytest.mark.slow
def test_the_workers_of_a_spec_take_planted_faults(folder: Path) -> None:
    path = folder / "rnncheck.yaml"
    path.write_text(spec(MULTI))
    command = ["selftest", str(path), "--fault", "workers-without", "--fault", "carry-in"]
    done = CliRunner().invoke(app, [*command, "--report", "json"])
    result = json.loads(done.stdout)
    assert [one["ending"] for one in result["faults"]] == ["caught", "caught"]
    by = {one["fault"]: one["by"] for one in result["faults"]}
    assert by["workers-without-memory"] == ["CL407"]
