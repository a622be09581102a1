"""What a shell completes, asked as bash asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rnncheck.cli.options import complete_faults
from rnncheck.faults.registry import faults
from tests.small import PIPELINE, START

ROOT = Path(__file__).parent.parent.parent


def completed(line: str, cwd: Path = ROOT) -> list[str]:
    words = line.split(" ")
    env = os.environ | {
        "PYTHONPATH": str(ROOT),
        "_RNNCHECK_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    command = [sys.executable, "-c", START]
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("rnncheck verify --select BD30", "BD301"),
        ("rnncheck verify --ignore W", "WR"),
        ("rnncheck run --select RP504,LS7", "RP504,LS701"),
        ("rnncheck rule PR9", "PR902"),
        ("rnncheck gate --report s", "sarif"),
        ("rnncheck selftest --fault flag-", "flag-dropped"),
        ("rnncheck verify --set verify.ti", "verify.timeout="),
    ],
)
def test_a_beginning_is_completed(line: str, wanted: str) -> None:
    found = completed(line)
    beginning = line.rpartition(" ")[2]
    assert wanted in found
    assert all(word.startswith(beginning) for word in found)


def test_the_keys_of_the_spec_here_are_known(tmp_path: Path) -> None:
    (tmp_path / "rnncheck.yaml").write_text(PIPELINE)
    found = completed("rnncheck verify --set policy.modules.0.", tmp_path)
    assert "policy.modules.0.hidden_size=" in found


def test_a_spec_that_cannot_be_read_completes_nothing_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "rnncheck.yaml").write_text("policy: [")
    assert completed("rnncheck verify --set policy", tmp_path) == []
    assert "verify.steps=" in completed("rnncheck verify --set verify.s", tmp_path)


def test_every_fault_is_known_without_loading_it() -> None:
    assert sorted(complete_faults("")) == sorted(fault.name for fault in faults())
