"""``--against-ref`` where the revision asks for another TorchRL: its own environment, from the
package index."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rnncheck.errors import UserError
from rnncheck.gate.commands import run_command
from rnncheck.gate.venv import installer
from tests.small import PIPELINE

pytestmark = pytest.mark.slow
Runner = Callable[..., subprocess.CompletedProcess[str]]
SPEC = PIPELINE + "verify: {select: [WR10]}\nbench: {shapes: [{batch: 4, steps: 8}]}\n"
COMMIT = ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "older"]


def git(folder: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """HEAD asks for the TorchRL before this one; the files on the disk for this one."""
    (tmp_path / "rnncheck.yaml").write_text(SPEC)
    asked = tmp_path / "requirements.txt"
    asked.write_text("torchrl==0.14.0\ntensordict==0.14.3\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, *COMMIT)
    asked.write_text("torchrl==0.14.1\n")
    return tmp_path


def test_a_revision_with_other_requirements_gets_an_environment_of_its_own(
    rnncheck: Runner, repository: Path
) -> None:
    try:
        install = installer(Path(sys.executable), repository)
        run_command(
            [*install, "--dry-run", "--no-deps", "torchrl==0.14.0"], repository, "no package index"
        )
    except UserError as error:
        pytest.skip(error.message)
    out = repository / "out.json"
    more = ["--set", "gate.cells=[{phase: act}]", "--max-slowdown", "60%"]
    done = rnncheck(
        "gate", "rnncheck.yaml", "--against-ref", "HEAD", *more, "--report", f"json={out}",
        cwd=repository,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    items = {one["name"]: one for one in json.loads(out.read_text())["gate"]}
    assert "torchrl 0.14.1 / 0.14.0" in items["libraries"]["reason"]
    assert any(one["value"] for one in items.values())
