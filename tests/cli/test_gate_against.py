"""``rnncheck gate --against`` and ``--against-ref`` from the outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

Runner = Callable[..., subprocess.CompletedProcess[str]]
SPEC = """schema: 1
name: small
env: {use: GymEnv, env_name: CartPole-v1, transforms: [InitTracker]}
policy: {factory: "mine:policy"}
verify: {select: [WR10]}
bench: {shapes: [{batch: 4, steps: 8}]}
gate: {cells: [{phase: act}], patience: 20}
"""
MINE = """import time
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import LSTMModule

class Head(nn.Linear):
    def forward(self, x):
        end = time.perf_counter() + WAIT
        while time.perf_counter() < end:
            pass
        return super().forward(x)

def policy(env):
    return TensorDictSequential(
        LSTMModule(input_size=4, hidden_size=4, in_key="observation", out_key="embed"),
        TensorDictModule(Head(4, 2), in_keys=["embed"], out_keys=["action"]),
    )
"""


def write(folder: Path, wait: float) -> Path:
    """A spec whose policy waits so many seconds a step."""
    (folder / "mine.py").write_text(MINE.replace("WAIT", str(wait)))
    spec = folder / "spec.yaml"
    spec.write_text(SPEC)
    return spec


def git(folder: Path, *args: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The policy is quick at HEAD."""
    write(tmp_path, 0)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "quick")
    return tmp_path


@pytest.mark.slow
def test_the_guarantees_of_the_revision_before_are_held(rnncheck: Runner, repository: Path) -> None:
    spec, out = repository / "spec.yaml", repository / "out.json"
    options = ["--set", "gate.cells=[]", "--report", f"json={out}"]
    done = rnncheck("gate", str(spec), "--against-ref", "HEAD", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    items = [one for one in json.loads(out.read_text())["gate"] if one["part"] == "against"]
    assert [one["ruling"] for one in items if one["name"].endswith("guarantees")] == ["passed"]


@pytest.mark.slow
def test_a_change_that_slows_the_policy_is_seen_against_the_revision_before(
    rnncheck: Runner, repository: Path
) -> None:
    spec, out = write(repository, 0.005), repository / "out.json"
    done = rnncheck("gate", str(spec), "--against-ref", "HEAD", "--report", f"json={out}")
    assert done.returncode == 5, done.stdout + done.stderr
    items = [one for one in json.loads(out.read_text())["gate"] if one["part"] == "against"]
    by_ruling = {one["ruling"]: one for one in items}
    assert by_ruling["slower"]["value"] > 2
    assert len(by_ruling["slower"]["ratios"]) >= 4
    assert by_ruling["passed"]["name"].endswith("guarantees")
    left = subprocess.run(
        ["git", "status", "--short"], cwd=repository, capture_output=True, text=True
    )
    assert ".rnncheck" not in left.stdout


@pytest.mark.slow
def test_an_other_side_that_cannot_build_the_pipeline_is_named(
    rnncheck: Runner, tmp_path: Path
) -> None:
    spec = write(tmp_path, 0)
    broken = tmp_path / "python"
    broken.write_text(f'#!/bin/sh\nBROKEN=1 exec {sys.executable} "$@"\n')
    broken.chmod(0o755)
    mine = tmp_path / "mine.py"
    mine.write_text("import os\nassert 'BROKEN' not in os.environ\n" + mine.read_text())
    done = rnncheck("gate", str(spec), "--no-verify", "--against", str(broken))
    assert done.returncode == 2
    assert "the pipeline cannot be built" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--against", "nowhere"], "no Python interpreter"),
        (["--against", sys.executable, "--against-ref", "HEAD"], "two other sides"),
        pytest.param(["--against-ref", "nosuch"], "no such revision", marks=pytest.mark.slow),
        (["--against-ref", "--all"], "no such revision"),
    ],
)
def test_what_cannot_be_the_other_side(
    rnncheck: Runner, repository: Path, arguments: list[str], said: str
) -> None:
    done = rnncheck("gate", str(repository / "spec.yaml"), "--no-verify", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in " ".join(done.stderr.split())


@pytest.mark.slow
def test_a_revision_without_the_spec_and_a_folder_without_git(
    rnncheck: Runner, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = repository / "new.yaml"
    other.write_text(SPEC)
    done = rnncheck("gate", str(other), "--no-verify", "--against-ref", "HEAD")
    assert done.returncode == 2
    assert "does not exist in that revision" in " ".join(done.stderr.split())
    alone = write(tmp_path_factory.mktemp("alone"), 0)
    done = rnncheck("gate", str(alone), "--no-verify", "--against-ref", "HEAD")
    assert done.returncode == 2
    assert "needs a git repository" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_an_environment_that_has_the_project_from_another_checkout_runs_its_code(
    rnncheck: Runner, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (repository / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    checkout = tmp_path_factory.mktemp("checkout")
    shutil.copytree(repository, checkout, dirs_exist_ok=True)
    write(repository, 0.005)
    home, out = tmp_path_factory.mktemp("env"), repository / "out.json"
    venv.create(home, symlinks=True)
    (packages,) = home.rglob("site-packages")
    (packages / "all.pth").write_text("\n".join(one for one in sys.path if "-packages" in one))
    told = packages / "mine-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    direct = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    (told / "direct_url.json").write_text(json.dumps(direct))
    done = rnncheck(
        "gate", str(repository / "spec.yaml"), "--no-verify", "--against", str(home),
        "--report", f"json={out}",
    )  # fmt: skip
    assert done.returncode == 5, done.stdout + done.stderr
    code, speed = json.loads(out.read_text())["gate"]
    assert str(checkout) in code["reason"]
    assert speed["ruling"] == "slower"


@pytest.mark.slow
def test_a_fork_of_the_environment_is_the_same(rnncheck: Runner, tmp_path: Path) -> None:
    """The other side is found by its folder; nothing of this side's path is needed there."""
    spec, out = write(tmp_path, 0), tmp_path / "out.json"
    home = Path(sys.prefix)
    assert os.access(home / "bin" / "python", os.X_OK)
    done = rnncheck(
        "gate", str(spec), "--no-verify", "--against", str(home), "--max-slowdown", "60%",
        "--report", f"json={out}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    sides, item = json.loads(out.read_text())["gate"]
    assert (sides["name"], sides["ruling"]) == ("sides", "noted")
    assert item["ruling"] == "passed"
    assert 0.5 < item["value"] < 2
