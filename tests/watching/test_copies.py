"""``rnncheck run``: what acts is a copy of what is trained, or no copy of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import copies_script as scripts
from tests.watching.copies_script import OF_ITS_OWN, SYNCHRONISED
from tests.watching.next_values_script import changed
from tests.watching.scripts import failed, run

SLOW = pytest.mark.slow
Changes = tuple[tuple[str, str], ...]


def ran(rnncheck: Any, folder: Path, text: str, *options: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told)


@SLOW
def test_an_actor_that_is_synchronised_with_its_learner(rnncheck: Any, tmp_path: Path) -> None:
    assert ran(rnncheck, tmp_path, SYNCHRONISED) == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "changes",
    [pytest.param((), id="copied"), pytest.param((scripts.LOADED,), id="loaded", marks=SLOW)],
)
def test_a_copy_shares_its_state_key(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    text = changed(SYNCHRONISED, *changes)
    found = ran(rnncheck, tmp_path, text, "--select", "WR106,LS702,GR803")
    assert found == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((scripts.ANOTHER,), id="another one"),
        pytest.param((scripts.ANOTHER, scripts.NEVER), id="which is never trained", marks=SLOW),
        pytest.param(scripts.BOTH_TRAINED, id="a copy that is trained as well", marks=SLOW),
    ],
)
def test_what_is_no_copy_shares_it_as_well(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    text = changed(SYNCHRONISED, *changes)
    found = ran(rnncheck, tmp_path, text, "--select", "WR106")
    assert found == (ExitCode.FAILED, ["WR106"])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param((), ExitCode.VERIFIED, id="copied"),
        pytest.param(
            (scripts.NEVER,), ExitCode.NOT_SHOWN, id="never given the weights", marks=SLOW
        ),
        pytest.param(
            (scripts.ANOTHER, scripts.NEVER), ExitCode.NOT_SHOWN, id="another one", marks=SLOW
        ),
    ],
)
def test_a_learner_in_a_loss_of_its_own(
    rnncheck: Any, tmp_path: Path, changes: Changes, code: ExitCode
) -> None:
    """What was collected first is held against the weights that collected it."""
    text = changed(OF_ITS_OWN, *changes)
    found = ran(rnncheck, tmp_path, text, "--select", "CL,LS703,GR803,GR806")
    assert found == (code, [])
