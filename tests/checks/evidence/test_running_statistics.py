"""``rnncheck verify``: a module of a spec that counts running statistics of what it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.small import PIPELINE
from tests.watching.statistics_script import NORM, OF_ROWS

_MEMORY = "    - {use: LSTMModule, in_key: observation,"
assert _MEMORY in PIPELINE
NORMED = '    - {factory: "own:norm"}\n' + _MEMORY.replace("observation", "normed")
SPEC = (
    PIPELINE.replace(_MEMORY, NORMED)
    + "collect: {use: Collector, frames_per_batch: 64, batches: 2}\n"
)
OWN = """import torch
from tensordict.nn import TensorDictModule
from torch import nn


CLASS
def norm():
    return TensorDictModule(RunningNorm(4), in_keys=["observation"], out_keys=["normed"])
"""


@pytest.mark.parametrize(
    ("kind", "repeats", "carry"),
    [
        pytest.param(NORM, "passed", "could-not-look", id="statistics"),
        pytest.param(
            OF_ROWS.replace("zeros(4, size)", "zeros(1, size)"), "failed", "failed", id="a memory"
        ),
    ],
)
def test_they_are_held_and_a_memory_is_not(
    rnncheck: Any, tmp_path: Path, kind: str, repeats: str, carry: str
) -> None:
    (tmp_path / "own.py").write_text(OWN.replace("CLASS\n", kind.strip() + "\n\n\n"))
    (tmp_path / "spec.yaml").write_text(SPEC)
    asked = ("--select", "EQ206,CL402", "--report", "json")
    done = rnncheck("verify", "spec.yaml", *asked, cwd=tmp_path)
    assert done.stdout, done.stderr
    found = {one["code"]: one for one in json.loads(done.stdout)["checks"]}
    assert (found["EQ206"]["outcome"], found["CL402"]["outcome"]) == (repeats, carry), done.stderr
    if carry == "could-not-look":
        assert "running statistics that moved" in found["CL402"]["reason"]
