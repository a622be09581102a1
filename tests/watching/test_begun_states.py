"""``rnncheck run``: states of plain loops that begin with something else than zeros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, judged, run, written

CODES = "CL4,EQ201,RP5,BD3"
ACTING = "            h = torch.zeros_like(h)\n        x, start"
PASS = "torch.where(start.view(-1, 1), torch.zeros_like(h), h)"
FIRST = "h, start = torch.zeros(1, HIDDEN), torch.tensor([True])"
HEADS = "        self.policy, self.value ="
ONES = [
    (ACTING, ACTING.replace("zeros", "ones")),
    (PASS, PASS.replace("zeros", "ones")),
    (FIRST, FIRST.replace("zeros", "ones")),
]
WEIGHT = "        self.first = nn.Parameter(0.3 * torch.randn(1, HIDDEN))\n"
BEGIN = "net.first.detach().clone()"
LEARNED = [
    (HEADS, WEIGHT + HEADS),
    (ACTING, ACTING.replace("torch.zeros_like(h)", BEGIN)),
    (PASS, PASS.replace("torch.zeros_like(h)", "self.first")),
    (FIRST, FIRST.replace("torch.zeros(1, HIDDEN)", BEGIN)),
]
GOES_ON = (ACTING.replace("torch.zeros_like(h)", BEGIN), "        x, start")
FROM_ZEROS = ("h = " + PASS.replace("torch.zeros_like(h)", "self.first"), "h = " + PASS)


def text() -> str:
    return (SCRIPTS / "plain_single.py").read_text()


@pytest.mark.parametrize("changes", [ONES, LEARNED], ids=["ones", "learned"])
def test_they_are_what_resets_give(rnncheck: Any, tmp_path: Path, changes: Any) -> None:
    assert judged(rnncheck, tmp_path, CODES, text(), *changes) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(GOES_ON, "CL403", id="acting goes on"),
        pytest.param(FROM_ZEROS, "EQ201", id="training begins with zeros"),
    ],
)
def test_others_are_told(rnncheck: Any, tmp_path: Path, change: Any, code: str) -> None:
    done, found = judged(rnncheck, tmp_path, code, text(), *LEARNED, change)
    assert done == ExitCode.FAILED
    assert code in found


@pytest.mark.slow
def test_they_are_kept(rnncheck: Any, tmp_path: Path) -> None:
    path, kept = written(tmp_path, text(), *LEARNED), tmp_path / "kept.rnncheck"
    code, _, _ = run(rnncheck, "--select", "CL403", "--save", kept, path)
    assert code == ExitCode.VERIFIED
    done = rnncheck("verify", "--select", "CL403", str(kept), cwd=tmp_path)
    assert done.returncode == ExitCode.VERIFIED, done.stdout
