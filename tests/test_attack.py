"""A small part of `make attack`, which takes minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attack
import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "attack.py"


@pytest.mark.parametrize(("part", "count"), [("specs", 40), ("results", 20)])
def test_every_attack_is_answered(part: str, count: int) -> None:
    assert [said for said in attack.PARTS[part](count) if said] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "count"), [("streams", 0), ("disks", 0), ("interrupts", 10), ("kills", 8)]
)
def test_every_attack_on_a_process_is_answered(part: str, count: int) -> None:
    assert [said for said in attack.PARTS[part](count) if said] == []


def test_an_attack_that_is_not_answered_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(attack.PARTS, "odd", lambda count: iter(["", "it fell"]))
    assert attack.attacked(["odd"], 2) == 1
    assert "odd: it fell\nodd: 2 attacks in 0 s, 1 in all unanswered" in capsys.readouterr().out


def test_its_parts_are_chosen_by_name() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--only", "nothing"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "'specs', 'results', 'streams', 'disks', 'interrupts', 'kills'" in done.stderr
