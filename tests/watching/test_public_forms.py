"""``rnncheck run`` of scripts in the forms of public code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.extent import rows
from tests.watching import public_script as scripts
from tests.watching.scripts import failed, run


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told)


CLEAN = ("LS701", "VL601", "VL603", "VL604")
FAULTS = {
    "over truncations": ("LAMBDA", "torch.where(done[:, t], best[:, t], mixed)", "mixed", "LS701"),
    "over terminal states": ("LAMBDA", "gamma * nonterm[:, t] * mix", "gamma * mix", "VL603"),
    "the end of the step before": ("NORMALISED", *scripts.A_STEP_EARLY, "LS701"),
    "next values from zero": ("EVERY_NEXT", *scripts.FROM_ZERO, "VL604"),
}


@pytest.mark.parametrize(
    "name",
    rows(FAULTS, ["the end of the step before", "over truncations", "next values from zero"]),
)
def test_what_was_once_verified_is_named(rnncheck: Any, tmp_path: Path, name: str) -> None:
    script, old, new, code = FAULTS[name]
    text = getattr(scripts, script)
    assert text.count(old) == 1
    assert ran(rnncheck, tmp_path, text.replace(old, new), code) == (ExitCode.FAILED, [code])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LAMBDA", "NORMALISED", "EVERY_NEXT", "ENCODED"])
def test_the_healthy_ones_are_verified(rnncheck: Any, tmp_path: Path, name: str) -> None:
    text = getattr(scripts, name)
    assert ran(rnncheck, tmp_path, text, *CLEAN) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "name", ["EPISODES", pytest.param("SELDOM_RANDOM", marks=pytest.mark.slow)]
)
def test_nobody_is_blamed_for_less_than_could_be_seen(
    rnncheck: Any, tmp_path: Path, name: str
) -> None:
    """A pass that is given no state, on whole episodes; an action that is drawn now and then."""
    codes = ("EQ", "BD", "CL", "RP")
    assert ran(rnncheck, tmp_path, getattr(scripts, name), *codes)[1] == []


def test_a_state_that_outlives_its_episode(rnncheck: Any, tmp_path: Path) -> None:
    text = scripts.EPISODES.replace(
        "    agent.reset()\n", "    agent.reset() if episode == 0 else None\n"
    )
    assert ran(rnncheck, tmp_path, text, "CL403") == (ExitCode.FAILED, ["CL403"])
