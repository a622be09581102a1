"""``rnncheck run``: an estimator of TorchRL's that takes time limits for ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, failed, run, written

CUT_SOON = ("        Compose(\n", "        Compose(\n            StepCounter(9),\n")
NAMED = (
    "from torchrl.envs import (",
    "from torchrl.envs import (\n    StepCounter,",
)
APART = ("shifted=True", "deactivate_vmap=True")
LIMITS_END = (
    "    loss_module = ClipPPOLoss",
    '    advantage.set_keys(terminated="done")\n    loss_module = ClipPPOLoss',
)


@pytest.mark.slow
def test_they_are_a_warning_and_no_fault(rnncheck: Any, tmp_path: Path) -> None:
    """And none where those that were terminated alone are."""
    text = (SCRIPTS / "ppo_cartpole.py").read_text()
    told = [
        run(rnncheck, "--select", "VL603", written(tmp_path, text, NAMED, CUT_SOON, APART, *more))
        for more in ((), (LIMITS_END,))
    ]
    assert [(code, failed(one)) for code, one, _ in told] == [
        (ExitCode.VERIFIED, []),
        (ExitCode.VERIFIED, ["VL603"]),
    ]
    (found,) = told[1][1]["checks"]
    assert "estimated targets have nothing behind next.done" in found["findings"][0]["message"]
