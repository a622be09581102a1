"""``rnncheck run``: what a script writes its records to gets none twice, and prints none."""

from __future__ import annotations

from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.scripts import SCRIPTS, run

LOGGED = """\
import csv

LOG = open({path!r}, "w")
ROWS = csv.writer(LOG)
{text}"""
LINE = 'print(f"update {update}: loss {loss.item():.4f}")'


@pytest.mark.slow
def test_records_are_written_once_and_prints_printed_once(rnncheck: Any, tmp_path: Any) -> None:
    text = (SCRIPTS / "plain_single.py").read_text()
    before, behind = "        optim.zero_grad()\n", "ROWS.writerow([loss.item()])"
    assert text.count(before) == text.count(LINE) == 1
    noted = f"        {behind}; LOG.flush(); print('noted', loss.item())\n"
    script, log = tmp_path / "logged.py", tmp_path / "log.csv"
    text = text.replace(before, noted + before)
    script.write_text(LOGGED.format(path=str(log), text=text))
    code, told, done = run(rnncheck, "--select", "CL,LS,VL", script)
    assert (code, told["verdict"]) == (ExitCode.VERIFIED, "verified")
    assert len(log.read_text().splitlines()) == 3
    assert done.stderr.count("noted") <= 3
