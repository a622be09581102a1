"""``rnncheck run``: a function that stores what it is given, and trains on what it draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.ends_script import ENDS_IGNORED
from tests.watching.next_values_script import OWN, changed
from tests.watching.scripts import failed, run

_LOOP = """for data in Collector(env, actor, frames_per_batch=96, total_frames=576):
    loss = loss_of(data)
    optim.zero_grad()
    loss.backward()
    optim.step()
"""
DRAWN = changed(
    OWN,
    (
        _LOOP,
        """buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(64), batch_size=6)


def update(batch):
    loss = loss_of(batch)
    optim.zero_grad()
    loss.backward()
    optim.step()


def train(rows):
    buffer.extend(rows)
    for _ in range(2):
        update(buffer.sample())


for data in Collector(env, actor, frames_per_batch=96, total_frames=576):
    train(data)
""",
    ),
)


@pytest.mark.slow
def test_what_is_drawn_is_trained_on(rnncheck: Any, tmp_path: Path) -> None:
    """Rows in another order would be drawn otherwise."""
    (tmp_path / "train.py").write_text(DRAWN)
    code, told, _ = run(rnncheck, "--select", "LS", "--select", "VL", tmp_path / "train.py")
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    said = {one["stage"]: one["detail"] for one in told["stages"]}
    assert said["loss"].startswith("update")
    assert "of [6, 24]" in said["replay"]


def test_its_faults_are_named(rnncheck: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(changed(DRAWN, ENDS_IGNORED))
    code, told, _ = run(rnncheck, "--select", "VL", tmp_path / "train.py")
    assert (code, failed(told)) == (ExitCode.FAILED, ["VL603"])
