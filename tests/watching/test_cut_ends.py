"""``rnncheck run``: the ends that a sampler puts into rows, in targets that a loss makes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.ends_script import THREE_STEPS
from tests.watching.next_values_script import OWN, changed
from tests.watching.scripts import failed, run

# Slices of what was collected, whose last steps the sampler marks as truncated and done.
SLICES = changed(
    OWN,
    (
        "for data in Collector(env, actor, frames_per_batch=96, total_frames=576):\n",
        """from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer

sampler = SliceSampler(slice_len=8, traj_key=("collector", "traj_ids"), strict_length=True)
buffer = TensorDictReplayBuffer(
    storage=LazyTensorStorage(2000, ndim=2), sampler=sampler, batch_size=96
)
for data in Collector(env, actor, frames_per_batch=96, total_frames=576):
    buffer.extend(data)
    data = buffer.sample().reshape(-1, 8)
""",
    ),
)
DONE = ('batch["next", "terminated"].squeeze(-1)', 'batch["next", "done"].squeeze(-1)')
UNMARKED = ("strict_length=True", "strict_length=True, truncated_key=None")
LEFT_OUT = (
    "    told = dist",
    """    counts = torch.ones_like(over)
    counts[:, -1] = False
    gain = gain * counts
    told = dist""",
)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="terminated"),
        pytest.param((DONE, UNMARKED), id="done, where nothing is marked", marks=pytest.mark.slow),
        pytest.param(
            (DONE, LEFT_OUT), id="the last step of each slice is left out", marks=pytest.mark.slow
        ),
        pytest.param((THREE_STEPS,), id="sums of rewards stop there", marks=pytest.mark.slow),
    ],
)
def test_ends_of_slices_are_no_ends_of_episodes(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    (tmp_path / "train.py").write_text(changed(SLICES, *changes))
    code, told, _ = run(rnncheck, "--select", "VL604", tmp_path / "train.py")
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="one step"),
        pytest.param((THREE_STEPS,), id="three steps", marks=pytest.mark.slow),
    ],
)
def test_ends_of_slices_are_taken_for_ends_of_episodes(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    (tmp_path / "train.py").write_text(changed(SLICES, DONE, *changes))
    code, told, _ = run(rnncheck, "--select", "VL604", tmp_path / "train.py")
    assert (code, failed(told)) == (ExitCode.FAILED, ["VL604"])
    (check,) = told["checks"]
    assert "takes the ends of slices for ends" in check["findings"][0]["message"]
