"""``rnncheck bench --engine ray`` on a Ray cluster of this machine with room for two workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.small import START

Bench = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[2]
CLUSTER = """
import sys, ray
found = ray.init(address="local", num_cpus=2, include_dashboard=False, _temp_dir=sys.argv[1])
print(found.address_info["address"], flush=True)
sys.stdin.read()
"""
MARK = "RNNCHECK_TEST_CLUSTER"  # in the environment of everything that the cluster starts
SMALL = [
    "--set", "bench.shapes=[{batch: 4, steps: 8}]", "--set", "bench.resets=[0.1]",
    "--set", "bench.interval=0.5", "--set", "bench.budget=240", "--set", "bench.goal=times",
]  # fmt: skip


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """Of a driver of the cluster. Ray keeps its token in the home folder: this one has its own."""
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # short: sockets lie in it
        env = os.environ | {
            "HOME": folder, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", MARK: uuid.uuid4().hex,
        }  # fmt: skip
        cluster = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, folder],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert cluster.stdout is not None
        yield env | {"RAY_ADDRESS": cluster.stdout.readline().strip()}
        cluster.communicate(timeout=60)


@pytest.fixture
def bench(environment: dict[str, str]) -> Bench:
    """Runs ``rnncheck bench ARGS...`` as a process of its own."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", START, "bench", *args],
            env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    return run


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


def workers(mark: str) -> list[int]:
    """The worker processes that the cluster has now."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            mine = f"{MARK}={mark}".encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if mine and b"rnncheck.bench.worker" in command:
            found.append(int(process.name))
    return found


@pytest.mark.ray
def test_the_same_cells_as_without_ray(bench: Bench, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    shutil.copy(ROOT / "fixtures/specs/cartpole_dqn.yaml", spec)
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    asked = [str(spec), *SMALL, "--set", "bench.phases=[forward, act]"]
    assert bench(*asked, "--report", f"json={here}").returncode == 0
    done = bench(*asked, "--engine", "ray", "--report", f"json={there}")
    assert done.returncode == 0, done.stderr
    same = ("key", "label", "status", "reason", "accuracy")
    for one, other in zip(rows(here), rows(there), strict=True):
        assert {name: one[name] for name in same} == {name: other[name] for name in same}
        assert len(other["samples"]["wall"]) == other["timing"]["samples"] > 0
        assert other["node"]
        assert not one["node"]
    assert any("Ray cluster: 4 on" in text for text in json.loads(there.read_text())["notices"])
    again = bench(*asked, "--engine", "ray", "--resume", "--report", f"json={here}")
    assert again.returncode == 0, again.stderr
    assert rows(here) == rows(there)
    mixed = bench(*asked, "--resume")
    assert mixed.returncode == 2
    assert "its engine is another (ray then, local now)" in mixed.stderr


@pytest.mark.ray
@pytest.mark.slow
def test_a_cell_that_kills_its_worker_or_its_actor_costs_itself_alone(
    bench: Bench, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "fixtures/bench/troubled.yaml", tmp_path)
    code = (ROOT / "fixtures/bench/troubled.py").read_text()
    (tmp_path / "troubled.py").write_text(code.replace("os.getpid()", "os.getppid()"))
    out = tmp_path / "run.json"
    done = bench(str(tmp_path / "troubled.yaml"), "--engine", "ray", "--report", f"json={out}")
    assert done.returncode == 0, done.stderr
    found = {row["cell"]["batch"]: (row["status"], row["reason"]) for row in rows(out)}
    assert list(found) == [2, 3, 5, 7, 11, 13, 4]
    assert found[2][0] == found[4][0] == "ok"
    assert found[3] == ("timeout", "no answer within 20 s")
    assert found[5] == ("crashed", "the process ended with SIGSEGV")
    assert found[7][0] == "crashed"
    assert "the Ray actor" in found[7][1]
    assert found[11][0] == "oom"
    assert found[13] == ("failed", "ValueError: thirteen rows are too many")


@pytest.mark.ray
def test_ctrl_c_leaves_no_worker(environment: dict[str, str], tmp_path: Path) -> None:
    for name in ("troubled.yaml", "troubled.py"):
        shutil.copy(ROOT / "fixtures/bench" / name, tmp_path)
    more = [
        "--set", "bench.shapes=[{batch: 2, steps: 4}, {batch: 3, steps: 4}]",
        "--set", "bench.timeout=200", "--set", "bench.budget=300",
    ]  # fmt: skip
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            START,
            "bench",
            str(tmp_path / "troubled.yaml"),
            "--engine",
            "ray",
            *more,
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    journal = tmp_path / ".rnncheck" / "runs" / "sweep.jsonl"
    until = time.monotonic() + 120
    while not journal.exists() or journal.read_text().count("\n") < 2:
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    assert workers(environment[MARK])  # one of them in a cell that hangs
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert workers(environment[MARK]) == []
    latest = json.loads((journal.parent / "latest.json").read_text())
    assert [(row["cell"]["batch"], row["status"]) for row in latest["cells"]] == [
        (2, "ok"),
        (3, "skipped"),
    ]


@pytest.mark.ray
def test_a_pipeline_that_cannot_be_built_is_one_sentence(bench: Bench, tmp_path: Path) -> None:
    shutil.copy(ROOT / "fixtures/bench/troubled.yaml", tmp_path)  # without its factory
    done = bench(str(tmp_path / "troubled.yaml"), "--engine", "ray")
    assert done.returncode == 2
    assert "error: the pipeline cannot be built" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.ray
def test_a_device_that_the_cluster_lacks_is_refused_before_the_last_sweep_is_overwritten(
    bench: Bench, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "fixtures/specs/cartpole_dqn.yaml", tmp_path / "spec.yaml")
    done = bench(str(tmp_path / "spec.yaml"), "--set", "device=cuda", "--engine", "ray")
    assert done.returncode == 2
    assert "no node of the Ray cluster offers a GPU" in done.stderr
    assert not (tmp_path / ".rnncheck" / "runs" / "sweep.jsonl").exists()


def refused(tmp_path: Path, *args: str, before: str = "") -> str:
    """What ``rnncheck bench SPEC ARGS...`` says where it refuses; ``before`` runs first in its
    process."""
    shutil.copy(ROOT / "fixtures/specs/cartpole_dqn.yaml", tmp_path / "spec.yaml")
    done = subprocess.run(
        [sys.executable, "-c", before + START, "bench", str(tmp_path / "spec.yaml"), *args],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_without_ray_the_extra_is_named(tmp_path: Path) -> None:
    said = refused(tmp_path, "--engine", "ray", before="import sys; sys.modules['ray'] = None\n")
    assert (
        said == "error: --engine ray: Ray is not installed\n"
        "  pip install 'rnncheck[ray]', or leave --engine out\n"
    )


def test_an_address_without_the_engine_is_refused(tmp_path: Path) -> None:
    assert "--ray-address is for --engine ray alone" in refused(tmp_path, "--ray-address", "x:1")


@pytest.mark.ray
@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "ray://127.0.0.1:1"])
def test_no_cluster_is_one_sentence(tmp_path: Path, address: str) -> None:
    said = refused(tmp_path, "--engine", "ray", "--ray-address", address)
    assert said.startswith("error: --engine ray: there is no Ray cluster to run on: ")
    assert "`ray start --head`" in said
