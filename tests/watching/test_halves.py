"""``rnncheck run``: loops over single steps whose training rows begin inside of episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.in_form import _beginning_inside
from tests.watching.halves_script import ALL, EARLY, FROM_ZERO, HALF, NO_STATE, PLAIN, STEPPED
from tests.watching.scripts import failed, run


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, list[str]]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told)


@pytest.mark.parametrize(
    "given", [pytest.param(HALF, id="half"), pytest.param(ALL, id="all", marks=pytest.mark.slow)]
)
def test_a_part_with_the_states_that_it_begins_with(
    rnncheck: Any, tmp_path: Path, given: str
) -> None:
    text = STEPPED.replace("GIVEN", given)
    assert ran(rnncheck, tmp_path, text, "VL604", "RP504", "EQ201") == (ExitCode.VERIFIED, [])


@pytest.mark.parametrize(
    "given", [pytest.param(HALF, id="half", marks=pytest.mark.slow), pytest.param(ALL, id="all")]
)
def test_a_part_that_is_trained_from_zeros(rnncheck: Any, tmp_path: Path, given: str) -> None:
    """All first rows begin with episodes: of ``ALL`` the second half tells."""
    assert NO_STATE[0] in STEPPED
    text = STEPPED.replace("GIVEN", given).replace(*NO_STATE)
    assert ran(rnncheck, tmp_path, text, "VL604") == (ExitCode.FAILED, ["VL604"])


@pytest.mark.slow
def test_a_part_with_states_of_earlier_steps(rnncheck: Any, tmp_path: Path) -> None:
    text = STEPPED.replace("GIVEN", EARLY)
    assert ran(rnncheck, tmp_path, text, "RP504", "VL604") == (ExitCode.FAILED, ["RP504"])


PASSES = ("EQ201", "RP504", "CL406", "LS701")
WHOLE = PLAIN.replace("STEPS, HALF = 40, 20", "STEPS, HALF = 40, 0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "ended"),
    [
        pytest.param(WHOLE, ExitCode.VERIFIED, id="all"),
        pytest.param(PLAIN, ExitCode.NOT_SHOWN, id="half"),
    ],
)
def test_a_plain_loop_that_keeps_its_states_is_not_blamed(
    rnncheck: Any, tmp_path: Path, text: str, ended: ExitCode
) -> None:
    """Of the half no part of the policy gives anything for each step that was told."""
    assert ran(rnncheck, tmp_path, text, *PASSES) == (ended, [])


@pytest.mark.slow
def test_a_plain_loop_that_trains_from_zeros(rnncheck: Any, tmp_path: Path) -> None:
    assert FROM_ZERO[0] in WHOLE
    ended, names = ran(rnncheck, tmp_path, WHOLE.replace(*FROM_ZERO), "EQ201")
    assert (ended, names) == (ExitCode.FAILED, ["EQ201"])


def rows_of(*begins: bool, steps: int) -> TensorDictBase:
    """Rows by whether each begins with an episode."""
    flags = torch.zeros(len(begins), steps, 1, dtype=torch.bool)
    flags[:, 0, 0] = torch.tensor(begins)
    return TensorDict({"is_init": flags}, [len(begins), steps])


@pytest.mark.parametrize(
    ("steps", "shorter", "found"),
    [(3, True, [3]), (3, False, []), (4, True, [4]), (5, True, []), (5, False, [])],
)
def test_parts_of_a_loop_may_be_shorter_and_never_longer(
    steps: int, shorter: bool, found: list[int]
) -> None:
    collected = [rows_of(False, False, steps=steps)]
    added = _beginning_inside([rows_of(True, True, steps=4)], collected, shorter=shorter)
    assert [one.shape[1] for one in added] == found


def test_an_index_is_cut_to_the_shorter_rows() -> None:
    given = rows_of(True, True, steps=4).set("index", torch.arange(8).reshape(2, 4))
    (found,) = _beginning_inside([given], [rows_of(False, True, steps=3)], shorter=True)
    assert found["index"].tolist() == [[0, 1, 2], [4, 5, 6]]
    assert found["is_init"][:, 0, 0].tolist() == [False, True]
