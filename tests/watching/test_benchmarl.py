"""BenchMARL's own command line under ``rnncheck run``: the verdict is what its objects do."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.versions.environment import ROOT, NoPackage, make
from tests.watching.benchmarl_truth import PACKAGES, ROWS, TORCHRL, arguments
from tests.watching.scripts import failed

pytestmark = pytest.mark.slow
SAME = 1e-6  # of outputs below 1: rounding
CASES = [  # rows of 50 steps: of episodes of 20 every second batch begins inside one
    ("mappo", "gru", 20, ["CL406"]),
    ("mappo", "lstm", 25, []),
    ("iql", "gru", 20, ["CL406", "LS701"]),
    ("iql", "lstm", 25, ["LS701"]),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return make(TORCHRL, tmp_path_factory.mktemp("benchmarl"), *PACKAGES)
    except NoPackage as why:
        pytest.skip(str(why))


def answered(python: Path, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [str(python), *args], cwd=folder, env=env, capture_output=True, text=True, timeout=600
    )


def verdict(python: Path, folder: Path, asked: list[str]) -> tuple[int, dict[str, Any]]:
    report = folder / "run.json"
    told = ["-m", "rnncheck", "run", "--report", f"json={report}", "-m", "benchmarl.run", *asked]
    done = answered(python, folder, *told)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(report.read_text())


@pytest.mark.parametrize(("algorithm", "model", "episode", "codes"), CASES)
def test_the_verdict_is_what_its_objects_do(
    python: Path, tmp_path: Path, algorithm: str, model: str, episode: int, codes: list[str]
) -> None:
    script = str(Path(__file__).with_name("benchmarl_truth.py"))
    done = answered(python, tmp_path, script, algorithm, model, str(episode), str(tmp_path))
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout.splitlines()[-1])
    assert truth["stored"] == []
    assert truth["behind"] <= SAME
    assert (truth["before"] > SAME) == (ROWS % episode > 0) == ("CL406" in codes)
    assert truth["inside"] > SAME
    assert (truth["across"] > 0) == ("LS701" in codes)
    code, run = verdict(python, tmp_path, arguments(algorithm, model, episode))
    assert (code, failed(run)) == (ExitCode.FAILED if codes else ExitCode.VERIFIED, codes)
    assert codes or {g["standing"] for g in run["guarantees"]} == {"shown"}
    places = {one["source"]["path"] for c in run["checks"] for one in c["findings"]}
    assert all("benchmarl" in Path(path).parts for path in places)
