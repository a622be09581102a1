"""``rnncheck run``: a ``with`` around the steps that goes on behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

LOOP = "for step in range(STEPS):\n            obs[step] = next_obs"
STEPS = (f"        {LOOP}", f"        with torch.no_grad():\n          {LOOP}")
TARGETS = (
    "        with torch.no_grad():\n            next_value",
    "          if STEPS > 0:\n            next_value",
)
ASKED = ("--select", "EQ201", "--select", "LS701", "--select", "LS703", "--select", "VL6")


@pytest.mark.slow
def test_what_stands_in_it_behind_the_steps_is_a_part_of_the_loss(
    rnncheck: Any, tmp_path: Path
) -> None:
    path = planted(tmp_path, "plain_vector.py", STEPS, TARGETS)
    ended, found, _ = run(rnncheck, *ASKED, path)
    assert (ended, failed(found)) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_fault_in_it_is_told(rnncheck: Any, tmp_path: Path) -> None:
    fault = ("going_on, following = 1.0 - dones[t + 1]", "going_on, following = 1.0")
    path = planted(tmp_path, "plain_vector.py", STEPS, TARGETS, fault)
    ended, found, _ = run(rnncheck, *ASKED, path)
    assert ended == ExitCode.FAILED
    assert {"LS701", "VL603"} & set(failed(found))


@pytest.mark.slow
def test_tensors_that_are_laid_out_in_it_keep_the_graph_of_what_was_seen(
    rnncheck: Any, tmp_path: Path
) -> None:
    """What the env showed has a gradient through them, as behind the block."""
    laid = (
        "        b_obs = obs.reshape",
        "          b_obs = obs.reshape",
    )
    path = planted(tmp_path, "plain_vector.py", STEPS, TARGETS, laid)
    ended, found, _ = run(rnncheck, *ASKED, path)
    assert (ended, failed(found)) == (ExitCode.VERIFIED, [])
