"""``rnncheck run``: transitions that an object hands out and forgets, and passes over what is
observed next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.next_values_script import changed
from tests.watching.scripts import failed, run
from tests.watching.transitions_script import (
    FAULTS,
    FROM_ZEROS,
    HEALTHY,
    OF_THIS_STEP,
    SHORT,
    TRANSITIONS,
)

SLOW = pytest.mark.slow


def ran(
    rnncheck: Any, folder: Path, text: str, *codes: str
) -> tuple[int, list[str], dict[str, Any]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told), told


@SLOW
def test_such_a_loop_is_verified(rnncheck: Any, tmp_path: Path) -> None:
    code, failures, told = ran(rnncheck, tmp_path, TRANSITIONS)
    assert (code, failures) == (ExitCode.VERIFIED, [])
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


@pytest.mark.slow
def test_what_it_hands_out_is_found(rnncheck: Any, tmp_path: Path) -> None:
    """Though it holds an empty list by the time it trains."""
    codes = ("CL403", "RP504", "VL603", "VL604")
    code, failures, told = ran(rnncheck, tmp_path, TRANSITIONS, *codes)
    assert (code, failures) == (ExitCode.VERIFIED, [])
    outcomes = {one["code"]: one["outcome"] for one in told["checks"]}
    assert {code: outcomes[code] for code in codes} == dict.fromkeys(codes, "passed")


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param(*one, marks=SLOW if one[0] == "from the last state" else ()) for one in FAULTS],
)
def test_its_faults_are_named(rnncheck: Any, tmp_path: Path, name: str, code: str) -> None:
    text = changed(TRANSITIONS, FAULTS[name, code])
    assert ran(rnncheck, tmp_path, text, code)[:2] == (ExitCode.FAILED, [code])


@pytest.mark.parametrize(
    "name", [pytest.param("flat", marks=SLOW), pytest.param("stepwise", marks=SLOW)]
)
def test_next_values_of_torchs_own_layers(rnncheck: Any, tmp_path: Path, name: str) -> None:
    healthy = HEALTHY[name]
    assert ran(rnncheck, tmp_path, healthy, "VL604")[:2] == (ExitCode.VERIFIED, [])
    faulty = changed(healthy, OF_THIS_STEP[name])
    assert ran(rnncheck, tmp_path, faulty, "VL604")[:2] == (ExitCode.FAILED, ["VL604"])


@pytest.mark.slow
def test_passes_that_both_begin_with_zeros_are_not_blamed(rnncheck: Any, tmp_path: Path) -> None:
    code, _, told = ran(rnncheck, tmp_path, FROM_ZEROS, "VL604")
    outcomes = [check["outcome"] for check in told["checks"]]
    assert (code, outcomes) == (ExitCode.NOT_SHOWN, ["not-applicable"])


def test_a_rollout_in_which_an_episode_ends_is_waited_for(rnncheck: Any, tmp_path: Path) -> None:
    """That it begins with an episode is told by the rollout right before it, not by the first."""
    codes = ("CL403", "CL405")
    assert ran(rnncheck, tmp_path, SHORT, *codes)[:2] == (ExitCode.VERIFIED, [])
    faulty = changed(SHORT, FAULTS["kept", "CL403"])
    assert ran(rnncheck, tmp_path, faulty, *codes)[:2] == (ExitCode.FAILED, ["CL403"])
