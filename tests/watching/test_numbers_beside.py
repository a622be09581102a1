"""``rnncheck run``: returns that the script's own lines keep beside the batch that they are of."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, failed, judged, run, written

_MADE = "        wanted = returns(reward, done, torch.zeros(reward.shape[:-1]))\n"
OVER_ENDS = ("wanted = returns(reward, done,", "wanted = returns(reward, done & False,")
DRAWN = (_MADE, f"{_MADE}        wanted = wanted + 0.1 * torch.rand(len(wanted))\n")


def script() -> str:
    """Returns of all that was collected are made once, and trained on in another loop."""
    text = (SCRIPTS / "own_actor_critic.py").read_text()
    ahead, begin, rest = text.partition("        with set_recurrent_mode(True):\n")
    inner, end, behind = rest.partition('        print(f"steps')
    inner = indent(begin + inner, "    ").replace("batch", "part")
    target = "target = returns(reward, done, torch.zeros(reward.shape[:-1]))"
    assert target in inner
    loop = f"{_MADE}        for part in (batch.clone(), batch.clone()):\n"
    return ahead + loop + inner.replace(target, "target = wanted") + end + behind


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), [], id="healthy"),
        pytest.param((OVER_ENDS,), ["VL601"], id="they run on over ends"),
    ],
)
def test_they_are_judged(
    rnncheck: Any, tmp_path: Path, changes: tuple[tuple[str, str], ...], expected: list[str]
) -> None:
    code, found = judged(rnncheck, tmp_path, "VL601", script(), *changes)
    assert (code, found) == (ExitCode.FAILED if expected else ExitCode.VERIFIED, expected)


def test_those_that_cannot_be_made_again_are_not_shown(rnncheck: Any, tmp_path: Path) -> None:
    path = written(tmp_path, script(), DRAWN)
    code, told, _ = run(rnncheck, "--select", "VL601", path)
    assert (code, failed(told)) == (ExitCode.NOT_SHOWN, [])
    (only,) = told["checks"]
    assert "the loss reads 'wanted', which your lines made ahead of it" in only["reason"]
