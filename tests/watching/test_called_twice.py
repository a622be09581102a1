"""``rnncheck run``: a loss module that is called once for each of its networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import failed, planted, run

ONCE = """        losses = loss_module(sample)
        loss = losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]
"""
TWICE = """        loss_module(sample)["loss_qvalue"].backward()
        losses = loss_module(AGAIN)
        loss = losses["loss_actor"] + losses["loss_alpha"]
"""
NETWORK = (
    ONCE,
    '        sample["embed"] = memory(sample.clone())["embed"]\n' + ONCE,
)


@pytest.mark.parametrize("again", ["sample", 'sample.exclude("td_error")'])
def test_what_its_own_call_left_feeds_it_not(rnncheck: Any, tmp_path: Path, again: str) -> None:
    script = planted(tmp_path, "sac_rollouts.py", (ONCE, TWICE.replace("AGAIN", again)))
    code, told, _ = run(rnncheck, "--select", "LS701,RP502", script)
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])


def test_what_another_network_made_feeds_it(rnncheck: Any, tmp_path: Path) -> None:
    script = planted(tmp_path, "sac_rollouts.py", NETWORK)
    assert run(rnncheck, "--select", "LS701", script)[0] == ExitCode.NOT_SHOWN
