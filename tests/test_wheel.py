"""The wheel: what the commands need beside modules travels in it. `make dist` installs it too."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rnncheck.checks.catalogue import entries

pytest.importorskip("hatchling", reason="the build backend; `make test` installs it")

ROOT = Path(__file__).parent.parent
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(folder / done.stdout.split()[-1]) as wheel:
        return set(wheel.namelist())


def test_rule_has_every_check_to_read(packed: set[str]) -> None:
    wanted = {entry.file.relative_to(ROOT).as_posix() for entry in entries()}
    assert len(wanted) > 50
    assert wanted <= packed


def test_every_file_of_the_package_is_in_it(packed: set[str]) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "rnncheck"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(listed.stdout.split()) <= packed
    assert "rnncheck/constraints.txt" in packed


def test_nothing_else_is_in_it(packed: set[str]) -> None:
    assert {name.split("/")[0].partition("-")[0] for name in packed} == {"rnncheck"}
