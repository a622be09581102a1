"""``rnncheck run``: losses that make their training pass themselves, or of several calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.inner_pass_script import SPANS, TWICE, WITHIN
from tests.watching.scripts import failed, run

RESETS = ("net(x, h * (1 - start).unsqueeze(-1))", "net(x, h)")
CUTS = ("for n, done in enumerate(dones[:-1]) if done", "for n in range(0)")


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, dict[str, Any]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, told


@pytest.mark.parametrize(
    ("text", "change"), [pytest.param(WITHIN, RESETS, marks=pytest.mark.slow), (SPANS, CUTS)]
)
def test_a_pass_inside_a_loss_is_held_against_acting(
    rnncheck: Any, tmp_path: Path, text: str, change: tuple[str, str]
) -> None:
    """Its loss is given more than the steps that the pass reads, or one trajectory at a time."""
    ended, told = ran(rnncheck, tmp_path, text, "BD301", "EQ201")
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])
    faulty = text.replace(change[0], change[1]) if text is SPANS else _in_the_loss(text, *change)
    assert faulty != text
    ended, told = ran(rnncheck, tmp_path, faulty, "BD301", "EQ201", "CL406")
    assert ended == ExitCode.FAILED
    assert failed(told)


def _in_the_loss(text: str, old: str, new: str) -> str:
    """What acts stays as it is."""
    ahead, loss = text.split("def loss_of")
    return ahead + "def loss_of" + loss.replace(old, new)


@pytest.mark.slow
def test_other_rows_than_the_loop_has(rnncheck: Any, tmp_path: Path) -> None:
    ended, told = ran(rnncheck, tmp_path, WITHIN, "GR", "PR", "EQ")
    assert (ended, failed(told)) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(("weight", "code"), [("0.5", ["LS704"]), ("1.0", [])])
def test_the_function_around_several_calls_is_the_loss(
    rnncheck: Any, tmp_path: Path, weight: str, code: list[str]
) -> None:
    ended, told = ran(rnncheck, tmp_path, TWICE.replace("WEIGHT", weight), "LS704")
    assert (ended, failed(told)) == (ExitCode.FAILED if code else ExitCode.VERIFIED, code)
