"""TorchRL's reference pages as specs, through the CLI: the verdict that each gets as printed, and
none when corrected."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from typer.testing import CliRunner

from rnncheck.cli.app import app
from rnncheck.results.exit_codes import ExitCode
from tests.extent import EXTENTS, rows

PAGES = Path(__file__).parent.parent.parent / "fixtures" / "reference"

# What is wrong with a page: the codes, and words of the fix that the corrected twin follows.
WRONG: dict[str, dict[str, str]] = {
    "policies_guide": {"RP502": "SliceSampler", "VL605": "shifted=True"},
    "policies_guide_rollout": {"CL410": "outside of set_recurrent_mode(True)"},
    "recurrent_dqn": {"LS701": 'batch["next", "is_init"] = batch["is_init"].clone()'},
    "recurrent_dqn_flags": {"VL604": "puts it back"},
    "recurrent_ppo": {"WR110": "NormalParamExtractor()"},
    "recurrent_ppo_head": {"RP502": "SliceSampler", "LS702": "slices in order"},
    "sequence_tutorial": {"WR111": "categorical_action_encoding=True"},
    "sequence_tutorial_estimator": {"VL604": "under set_recurrent_mode(True)"},
}
RIGHT = [
    "lstm_module",
    "policies_guide_corrected",
    "policies_guide_rollout_corrected",
    "recurrent_dqn_corrected",
    "recurrent_modules",
    "recurrent_ppo_corrected",
    "sequence_tutorial_corrected",
    "sequence_tutorial_estimator_corrected",
]
# The slow tests ask these: each check but VL605 stands beside another page, too.
LATER = {
    "lstm_module",
    "policies_guide_corrected",
    "recurrent_dqn_flags",
    "recurrent_modules",
}
STOPPED = {"recurrent_ppo"}  # the policy runs no step: nothing behind it can be told


def twin_of(name: str) -> str:
    """The corrected page of a wrong one."""
    return name.removesuffix("_flags").removesuffix("_head") + "_corrected"


def verified(name: str, *, whole: bool = False) -> dict[str, Any]:
    """The stored run of ``rnncheck verify`` on a page: of the checks that are beside it, or that
    its twin was given, their families; with ``whole``, and where there is none, of all checks."""
    beside = {code[:2] for page in WRONG if name in (page, twin_of(page)) for code in WRONG[page]}
    return _verified(name, () if whole or name in STOPPED else tuple(sorted(beside)))


@cache
def _verified(name: str, families: tuple[str, ...]) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        chosen = [part for family in families for part in ("--select", family)]
        asked = ["verify", str(PAGES / f"{name}.yaml"), "--no-repair", *chosen]
        command = [*asked, "-q", "--report", f"json={path}"]
        done = CliRunner().invoke(app, command)
        run: dict[str, Any] = json.loads(path.read_text())
    assert done.exit_code == run["exit_code"]
    return run


def with_outcome(run: dict[str, Any], outcome: str) -> dict[str, dict[str, Any]]:
    return {check["code"]: check for check in run["checks"] if check["outcome"] == outcome}


def test_every_page_has_its_row() -> None:
    assert {path.stem for path in PAGES.glob("*.yaml")} == {*WRONG, *RIGHT}


@pytest.mark.first(3)
@pytest.mark.parametrize("whole", EXTENTS)
@pytest.mark.parametrize("name", rows(WRONG, LATER))
def test_a_page_gets_the_verdict_that_it_deserves(name: str, whole: bool) -> None:
    run = verified(name, whole=whole)
    assert with_outcome(run, "failed").keys() == WRONG[name].keys()
    assert run["exit_code"] == ExitCode.FAILED
    assert not with_outcome(run, "error")


@pytest.mark.parametrize("name", rows(WRONG, LATER))
def test_its_findings_say_what_to_change(name: str) -> None:
    for code, check in with_outcome(verified(name), "failed").items():
        for finding in check["findings"]:
            assert WRONG[name][code] in finding["fix"]
            assert finding["cause"]
            assert finding["source"]["line"] > 0


@pytest.mark.first(2)
@pytest.mark.parametrize("whole", EXTENTS)
@pytest.mark.parametrize("name", rows(RIGHT, LATER))
def test_a_corrected_page_passes(name: str, whole: bool) -> None:
    run = verified(name, whole=whole)
    assert (run["exit_code"], with_outcome(run, "failed")) == (ExitCode.VERIFIED, {})
    assert not with_outcome(run, "error")


@pytest.mark.parametrize("name", rows(WRONG, LATER | {"policies_guide"}))
def test_what_was_wrong_is_really_asked_of_the_corrected_page(name: str) -> None:
    assert WRONG[name].keys() <= with_outcome(verified(twin_of(name)), "passed").keys()


@pytest.mark.parametrize("name", STOPPED)
def test_what_never_ran_is_not_said_to_be_absent_from_the_spec(name: str) -> None:
    run = verified(name)
    reasons = {check["reason"] for check in with_outcome(run, "could-not-look").values()}
    assert not [reason for reason in reasons if "the spec has no" in reason]
    detail = {stage["stage"]: stage["detail"] for stage in run["stages"]}
    assert detail["loss"] == "the collect stage failed"
