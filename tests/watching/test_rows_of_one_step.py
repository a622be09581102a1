"""``rnncheck run`` of a buffer that holds rows of one step each: no check crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

NO_SLICES = (
    '    sampler=SliceSampler(slice_len=8, end_key=("next", "done"), strict_length=False),\n',
    "",
)
ONE_STEP = ("buffer.extend(data.reshape(-1))", "buffer.extend(data.reshape(-1, 1))")


def test_replayed_outputs_of_single_steps(rnncheck: Any, tmp_path: Path) -> None:
    path = planted(tmp_path, "dqn_cartpole.py", NO_SLICES, ONE_STEP)
    code, told, _ = run(rnncheck, "--select", "RP507", path)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
