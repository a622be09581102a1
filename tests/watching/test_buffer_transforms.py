"""``rnncheck run``: what a script's replay buffer does with a batch before it hands it over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

R2D2 = "r2d2_slices.py"
# The burn-in is a transform of the buffer, whose items are whole episodes.
IN_THE_BUFFER = (
    (
        "Compose(InitTracker())",
        "Compose(StepCounter(8), InitTracker())",
    ),
    ("InitTracker, TransformedEnv", "InitTracker, StepCounter, TransformedEnv"),
    (
        """    sampler=SliceSampler(slice_len=SLICE, traj_key=("collector", "traj_ids")),
    batch_size=SLICE * SLICES,
""",
        "    batch_size=SLICES,\n",
    ),
    ("SLICE, BURN_IN, SLICES = 12, 4, 6", "SLICE, BURN_IN, SLICES = 8, 3, 6"),
    (
        "burn_in = BurnInTransform([memory], burn_in=BURN_IN)\n",
        "buffer.append_transform(BurnInTransform([memory], burn_in=BURN_IN))\n",
    ),
    ("buffer.extend(data.reshape(-1))", "buffer.extend(data.reshape(-1, SLICE))"),
    ("rows = burn_in(buffer.sample().reshape(-1, SLICE))", "rows = buffer.sample()"),
)


def test_a_burn_in_of_the_buffer(rnncheck: Any, tmp_path: Path) -> None:
    """Its states are no stored ones: they are of weights that have moved since."""
    path = planted(tmp_path, R2D2, *IN_THE_BUFFER)
    code, told, _ = run(rnncheck, "--updates", "6", "--select", "RP504,RP508", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert {check["outcome"] for check in told["checks"]} >= {"passed"}
