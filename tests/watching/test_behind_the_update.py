"""``rnncheck run``: a loss that unrolls a collector's policy by itself, and what goes on between
two batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import unroll_script as scripts
from tests.watching.scripts import failed, run
from tests.watching.unroll_script import UNROLLED, WINDOWS, WRITTEN

SLOW = pytest.mark.slow
Changes = tuple[tuple[str, str], ...]


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told)


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@SLOW
def test_an_unroll_of_its_own_is_verified(rnncheck: Any, tmp_path: Path) -> None:
    """With normalised advantages beside a value loss."""
    (tmp_path / "train.py").write_text(UNROLLED)
    code, told, _ = run(rnncheck, tmp_path / "train.py")
    assert (code, failed(told)) == (ExitCode.VERIFIED, [])
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


def test_an_unroll_that_begins_with_zeros(rnncheck: Any, tmp_path: Path) -> None:
    """All rows of the first batch begin with episodes; those of further ones tell."""
    text = changed(UNROLLED, scripts.FROM_ZERO)
    assert ran(rnncheck, tmp_path, text, "CL406") == (ExitCode.FAILED, ["CL406"])


@pytest.mark.slow
def test_an_unroll_that_ignores_the_resets(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(UNROLLED, scripts.NO_RESETS)
    assert ran(rnncheck, tmp_path, text, "BD301") == (ExitCode.FAILED, ["BD301"])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(scripts.PLAYED, id="a rollout"),
        pytest.param(scripts.PLAYED_BY_HAND, id="a reset", marks=SLOW),
    ],
)
def test_the_collectors_env_is_played_between_two_batches(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str]
) -> None:
    text = changed(UNROLLED, change)
    assert ran(rnncheck, tmp_path, text, "CL405") == (ExitCode.FAILED, ["CL405"])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param(scripts.PLAYED_LATER, (ExitCode.FAILED, ["CL405"]), id="its own"),
        pytest.param(scripts.OTHER_LATER, (ExitCode.VERIFIED, []), id="another one", marks=SLOW),
    ],
)
def test_it_is_played_behind_a_batch_that_went_on(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], found: tuple[int, list[str]]
) -> None:
    """The first batch behind the first update says nothing of the evaluations that come later."""
    assert ran(rnncheck, tmp_path, changed(UNROLLED, change), "CL405") == found


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(scripts.PLAYED_AND_RESET, id="and is reset"),
        pytest.param(scripts.PLAYED_ELSEWHERE, id="another one is played", marks=SLOW),
    ],
)
def test_an_evaluation_that_leaves_the_collector_alone(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str]
) -> None:
    text = changed(UNROLLED, change)
    assert ran(rnncheck, tmp_path, text, "CL404", "CL405") == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param(scripts.PLAYED, (ExitCode.FAILED, ["CL405"]), id="the collector's env"),
        pytest.param(scripts.PLAYED_ELSEWHERE, (ExitCode.VERIFIED, []), id="another one"),
    ],
)
def test_a_collector_that_writes_into_a_buffer(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], found: tuple[ExitCode, list[str]]
) -> None:
    """The script gets no batch: what is written tells."""
    text = changed(WRITTEN, change)
    assert ran(rnncheck, tmp_path, text, "CL404", "CL405") == found


def test_a_window_that_drops_the_state(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(WINDOWS, scripts.DROPPED)
    assert ran(rnncheck, tmp_path, text, "CL404") == (ExitCode.FAILED, ["CL404"])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="goes on"),
        pytest.param((scripts.BEGUN_ANEW,), id="begins anew", marks=SLOW),
    ],
)
def test_a_window_that_keeps_it(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    text = changed(WINDOWS, *changes)
    assert ran(rnncheck, tmp_path, text, "CL404")[1] == []
