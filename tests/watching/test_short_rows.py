"""``rnncheck run``: rows of which less than half is data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

PADDED = (
    ("import torch\n", "import torch\nfrom tensordict import pad\n"),
    (
        "    loss = reinforce(actor, rows)",
        "    rows = pad(rows, [0, 0, 0, 200 - rows.shape[1]])\n    loss = reinforce(actor, rows)",
    ),
)
NO_MODE = ("with set_recurrent_mode(True)", "with set_recurrent_mode(False)")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(PADDED, (ExitCode.VERIFIED, []), id="recurrent", marks=pytest.mark.slow),
        pytest.param((*PADDED, NO_MODE), (ExitCode.FAILED, ["LS703"]), id="step by step"),
    ],
)
def test_the_halves_of_data_are_asked(
    rnncheck: Any,
    tmp_path: Path,
    changes: tuple[tuple[str, str], ...],
    expected: tuple[int, list[str]],
) -> None:
    path = planted(tmp_path, "padded_trajs.py", *changes)
    code, told, _ = run(rnncheck, "--select", "LS703", path)
    assert (code, failed(told)) == expected
