"""``rnncheck run`` of scripts whose collectors leave out what is observed next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.extent import rows
from tests.watching.scripts import failed, run
from tests.watching.workers_script import ALONE, STORED

CODES = ("CL402", "CL404", "CL406", "RP5", "VL603", "VL604")
ZEROED = '        data["recurrent_state"] = torch.zeros_like(data["recurrent_state"])\n'
FAULTS = {
    "zero states": ("RP504", ZEROED + STORED),
    "steps in any order": ("RP502", STORED.replace("(data)", "(data[:, torch.randperm(24)])")),
    "advantages of the step before": (
        "RP509",
        '        data["advantage"] = data["advantage"].roll(1, 1)\n' + STORED,
    ),
    "advantages of another env": (
        "RP509",
        '        data["advantage"] = data["advantage"].roll(1, 0)\n' + STORED,
    ),
}


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, dict[str, Any]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, told


@pytest.mark.slow
def test_what_is_left_out_is_not_missed(rnncheck: Any, tmp_path: Path) -> None:
    """States are held against what was written a step before, steps told by what was seen."""
    code, told = ran(rnncheck, tmp_path, ALONE, *CODES)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    said = {one["code"]: one["reason"] for one in told["checks"]}
    assert said["CL402"].endswith("are what was written before")


@pytest.mark.parametrize("name", rows(FAULTS, ["steps in any order", "advantages of another env"]))
def test_faults_behind_such_a_collector(rnncheck: Any, tmp_path: Path, name: str) -> None:
    expected, changed = FAULTS[name]
    assert ALONE.count(STORED) == 1
    code, told = ran(rnncheck, tmp_path, ALONE.replace(STORED, changed), expected)
    assert (code, failed(told)) == (ExitCode.FAILED, [expected])


LOSES = """
class Loses(Collector):
    def iterator(self):
        for data in super().iterator():
            data["recurrent_state"][:, 5] = 0.5
            yield data


def make_actor():"""


def test_a_state_that_is_not_handed_on(rnncheck: Any, tmp_path: Path) -> None:
    text = ALONE.replace("def make_actor():", LOSES).replace("= Collector(", "= Loses(")
    code, told = ran(rnncheck, tmp_path, text, "CL402")
    assert (code, failed(told)) == (ExitCode.FAILED, ["CL402"])
    (found,) = (one for check in told["checks"] for one in check["findings"])
    assert "is not what the policy writes at the step before it" in found["message"]
