"""``rnncheck run``: a network that acts in ``eval()`` and is trained in ``train()``, and does
something else in either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, failed, run, written

ACTS_IN_EVAL = (
    (
        "        logits, value, h = self(x, h)\n        return Categorical",
        "        assert not self.training\n        logits, value, h = self(x, h)\n"
        "        return Categorical",
    ),
    ("    for _ in range(STEPS):\n", "    net.eval()\n    for _ in range(STEPS):\n"),
    ("        loss = loss_of(", "        net.train()\n        loss = loss_of("),
)
NOT_RESET = ("            h = torch.zeros_like(h)\n        x, start", "        x, start")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), [], id="healthy"),
        pytest.param((NOT_RESET,), ["CL403"], id="not reset"),
    ],
)
def test_it_is_judged_in_the_mode_in_which_it_acted(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: list[str]
) -> None:
    text = (SCRIPTS / "plain_single.py").read_text()
    path, file = written(tmp_path, text, *ACTS_IN_EVAL, *changes), tmp_path / "seen.rnncheck"
    code, told, _ = run(rnncheck, "--select", "CL403,EQ201", "--save", file, path)
    wanted = ExitCode.FAILED if expected else ExitCode.VERIFIED
    assert (code, failed(told)) == (wanted, expected)
    assert rnncheck("verify", str(file), "--select", "CL403,EQ201").returncode == wanted
