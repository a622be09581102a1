"""``rnncheck run``: envs that a script steps one after the other are judged as rows of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.extent import rows
from tests.watching.scripts import failed, run
from tests.watching.turns_script import FAULTS, TURNS


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, list[str]]:
    """Exit code, and codes that failed."""
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    ended, told, _ = run(rnncheck, *options, folder / "train.py")
    return ended, failed(told)


LATER = ("lines of the loop", "lines that reset between the steps", "one that calls itself an env")


@pytest.mark.parametrize("name", rows(TURNS, LATER))
def test_envs_by_turns_are_judged(rnncheck: Any, tmp_path: Path, name: str) -> None:
    assert ran(rnncheck, tmp_path, TURNS[name], "CL402", "CL403", "LS701", "RP504") == (
        ExitCode.VERIFIED,
        [],
    )


@pytest.mark.parametrize("code", FAULTS)
@pytest.mark.parametrize("name", rows(["an own vector env", "lines of the loop"], LATER))
def test_their_faults_are_found(rnncheck: Any, tmp_path: Path, name: str, code: str) -> None:
    text = TURNS[name]
    for old, new in FAULTS[code]:
        assert old in text
        text = text.replace(old, new)
    assert ran(rnncheck, tmp_path, text, code) == (ExitCode.FAILED, [code])


def test_envs_that_take_part_unevenly_are_named(rnncheck: Any, tmp_path: Path) -> None:
    """One that is left out of some rounds has rows of its own."""
    text = TURNS["lines of the loop"].replace("            over[n] =", "            over[0] =")
    skipped = "        for n, env in enumerate(envs):\n"
    text = text.replace(
        skipped, skipped + "            if n == 1 and step % 3 == 0:\n                continue\n"
    )
    ended, names = ran(rnncheck, tmp_path, text, "CL403")
    assert (ended, names) == (ExitCode.NOT_SHOWN, [])
