"""``rnncheck run``: of a loss that reads what nobody knows the recurrent pass is judged, where that
reads nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import OTHERS, failed, run, written

Change = tuple[str, str]
PADDED = (OTHERS / "padded_arrays.py").read_text()
OTHERWISE = (
    "torch.tanh(self.enc(s))",
    "(torch.tanh if s.shape[1] == 1 else torch.relu)(self.enc(s))",
)
NOT_RESET = ("            agent.reset()\n", "            agent.reset() if not seed else None\n")
READS_IT = (
    'self.net(batch["s"][index])',
    'self.net(batch["s"][index] * (1 + batch["active"][index].unsqueeze(-1)))',
)


@pytest.mark.parametrize(
    ("changes", "code", "named"),
    [
        pytest.param((), ExitCode.NOT_SHOWN, [], id="healthy"),
        pytest.param((OTHERWISE,), ExitCode.FAILED, ["EQ201"], id="another encoder"),
        pytest.param((NOT_RESET,), ExitCode.FAILED, ["CL403"], id="acting goes on"),
    ],
)
def test_it_is_judged(
    rnncheck: Any, tmp_path: Path, changes: tuple[Change, ...], code: ExitCode, named: list[str]
) -> None:
    path = written(tmp_path, PADDED, *changes)
    ended, told, _ = run(rnncheck, "--select", "CL403,EQ201,BD306,LS701", path)
    assert (ended, failed(told)) == (code, named)
    by_code = {one["code"]: one["outcome"] for one in told["checks"]}
    assert by_code["EQ201"] == ("failed" if "EQ201" in named else "passed")
    assert by_code["LS701"] == "not-applicable"


def test_one_that_reads_it_is_not(rnncheck: Any, tmp_path: Path) -> None:
    _, told, _ = run(rnncheck, "--select", "EQ201", written(tmp_path, PADDED, READS_IT))
    assert told["checks"][0]["outcome"] == "could-not-look"


def test_it_is_kept(rnncheck: Any, tmp_path: Path) -> None:
    script, kept = written(tmp_path, PADDED, OTHERWISE), tmp_path / "seen.rnn"
    run(rnncheck, "--select", "EQ201", "--save", kept, script)
    done = rnncheck("verify", "--select", "EQ201", str(kept), cwd=tmp_path)
    assert done.returncode == ExitCode.FAILED, done.stdout


def test_what_to_do_is_said(rnncheck: Any, tmp_path: Path) -> None:
    """And not which check to read of, as none is why."""
    done = rnncheck("run", "--select", "EQ201,LS701", str(written(tmp_path, PADDED)))
    assert "next: change what is said above, then rnncheck run" in done.stdout
