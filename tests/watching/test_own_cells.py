"""``rnncheck run``: a cell of the user's own in a loss of TorchRL's, which runs a delayed copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.own_cell_script import CUT, OWN_CELL
from tests.watching.scripts import judged


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy"),
        pytest.param((CUT,), (ExitCode.FAILED, ["GR801"]), id="the graph is cut at every step"),
    ],
)
def test_its_gradients_are_judged(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: Any
) -> None:
    """The delayed copy has no parameters of its own."""
    assert judged(rnncheck, tmp_path, "GR801,LS703,LS704", OWN_CELL, *changes) == expected
