"""``rnncheck run``: rows that are laid out the wrong way are one fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

LAID_OUT = (
    "buffer.sample().reshape(-1, SLICE)",
    "buffer.sample().reshape(SLICE, -1).transpose(0, 1).contiguous()",
)


def test_start_flags_between_their_steps_cut_no_graph(rnncheck: Any, tmp_path: Path) -> None:
    """They stand between any two steps then: that is no other cause. The loss runs along the rows
    as it was given them, whatever they hold."""
    script = planted(tmp_path, "r2d2_slices.py", LAID_OUT)
    code, told, _ = run(rnncheck, "--select", "RP502,GR801", script)
    assert (code, failed(told)) == (ExitCode.FAILED, ["RP502"])
    assert [one["outcome"] for one in told["checks"] if one["code"] == "GR801"] == ["passed"]
