"""``rnncheck run``: what plain loops hold beside their steps, in several envs or as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from rnncheck.results.exit_codes import ExitCode
from rnncheck.watching.forms.plain_calls import Slot, ToldCall
from rnncheck.watching.forms.recognised import storages_in
from rnncheck.watching.forms.storages import Spoilt, Storage
from tests.extent import rows
from tests.watching.scripts import failed, run
from tests.watching.vector_script import (
    ARRAYS,
    KNOWN,
    LAST_FROM_ZERO,
    RUN_ON,
    STACKED,
    STEP_BY_STEP,
    UNKNOWN,
    VECTOR,
)

ROWS, STEPS, HIDDEN = 3, 6, 5
TOLD = ToldCall(
    {("h",): Slot(("h",), 0, (HIDDEN,), torch.float32)},
    {("1",): Slot(("next", "h"), 0, (HIDDEN,), torch.float32)},
    rows=ROWS,
)


def ran(
    rnncheck: Any, folder: Path, text: str, *codes: str
) -> tuple[int, list[str], dict[str, Any]]:
    """Exit code, codes that failed, and the run."""
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    ended, told, _ = run(rnncheck, *options, folder / "train.py")
    return ended, failed(told), told


def changed(text: str, change: tuple[str, str]) -> str:
    assert change[0] in text
    return text.replace(*change)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_nobody_knows_is_named_and_not_judged(
    rnncheck: Any, tmp_path: Path, name: str
) -> None:
    """A number for each env, or what looks like a state: it would be the same for any batch."""
    ended, names, told = ran(rnncheck, tmp_path, changed(VECTOR, UNKNOWN[name]), "LS701")
    assert (ended, names) == (ExitCode.NOT_SHOWN, [])
    said = next(one["detail"] for one in told["stages"] if one["stage"] == "loss")
    assert said.startswith(f"`{name}` holds something of each of the ")


@pytest.mark.parametrize("name", rows(KNOWN, ["two numbers"]))
def test_constants_of_another_shape_are_constants(rnncheck: Any, tmp_path: Path, name: str) -> None:
    """``weights`` has a number for each env, and the loss does not read it."""
    text = changed(VECTOR, KNOWN[name])
    assert ran(rnncheck, tmp_path, text, "LS701")[:2] == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_last_state_begins_anew_where_an_episode_ended(rnncheck: Any, tmp_path: Path) -> None:
    ended, names, _ = ran(rnncheck, tmp_path, VECTOR, "LS701", "VL604", "CL403")
    assert (ended, names) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_a_last_value_from_zeros_is_named(rnncheck: Any, tmp_path: Path) -> None:
    """It moves with no state that was left there."""
    text = changed(VECTOR, LAST_FROM_ZERO)
    ended, names, told = ran(rnncheck, tmp_path, text, "LS701", "VL604")
    outcomes = {one["code"]: one["outcome"] for one in told["checks"]}
    assert (ended, names, outcomes["LS701"]) == (ExitCode.FAILED, ["VL604"], "passed")


@pytest.mark.slow
def test_lists_that_the_lines_make_tensors_of(rnncheck: Any, tmp_path: Path) -> None:
    """Under the name of the list: what it held is known from the last step."""
    ended = ran(rnncheck, tmp_path, STACKED, "LS701", "RP504")
    assert ended[:2] == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_their_returns_that_run_on_are_named(rnncheck: Any, tmp_path: Path) -> None:
    text = changed(STACKED, RUN_ON)
    assert ran(rnncheck, tmp_path, text, "LS701")[:2] == (ExitCode.FAILED, ["LS701"])


def test_a_loss_of_arrays_that_takes_each_step_alone(rnncheck: Any, tmp_path: Path) -> None:
    """No gradient reaches arrays: its pass tells."""
    text = changed(ARRAYS, STEP_BY_STEP)
    assert ran(rnncheck, tmp_path, text, "LS703")[:2] == (ExitCode.FAILED, ["LS703"])


def test_a_loss_of_arrays_that_remembers(rnncheck: Any, tmp_path: Path) -> None:
    assert ran(rnncheck, tmp_path, ARRAYS, "LS703")[:2] == (ExitCode.VERIFIED, [])


def batch_of(rows: int = ROWS) -> TensorDictBase:
    """Steps of which the second row's episode ends with the last."""
    draw = torch.Generator().manual_seed(rows)
    done = torch.zeros(rows, STEPS, 1, dtype=torch.bool)
    done[min(1, rows - 1), -1] = True
    entries = {
        "observation": torch.randn(rows, STEPS, 4, generator=draw),
        ("next", "observation"): torch.randn(rows, STEPS, 4, generator=draw),
        ("next", "reward"): torch.randn(rows, STEPS, 1, generator=draw),
        ("next", "done"): done,
        ("next", "terminated"): done,
        ("next", "truncated"): torch.zeros_like(done),
        "h": torch.randn(rows, STEPS, HIDDEN, generator=draw),
        ("next", "h"): torch.randn(rows, STEPS, HIDDEN, generator=draw),
    }
    return TensorDict(entries, [rows, STEPS])


def doubted(value: Any, *, told: ToldCall = TOLD, rows: int = ROWS) -> bool:
    found = storages_in({"data": value}, batch_of(rows), told, frozenset())
    assert not found.parts
    return [type(one) for one in found.doubts.values()] == [Spoilt]


@pytest.mark.parametrize(
    ("value", "doubt"),
    [
        (torch.rand(ROWS), True),
        (torch.rand(ROWS, 1).numpy(), True),
        (torch.rand(1, ROWS), True),
        (torch.arange(ROWS), False),
        (torch.rand(ROWS + 1), False),
        (torch.rand(ROWS, 2), False),
        (torch.nn.Parameter(torch.rand(ROWS)), False),
    ],
)
def test_a_number_for_each_env_is_doubted(value: Any, doubt: bool) -> None:
    assert doubted(value) is doubt


@pytest.mark.parametrize(
    ("value", "doubt"),
    [
        (torch.rand(ROWS, HIDDEN), True),
        (torch.zeros(ROWS, HIDDEN), False),
        (torch.rand(HIDDEN), False),
        (torch.rand(HIDDEN, ROWS), False),
        (torch.nn.Parameter(torch.rand(ROWS, HIDDEN)), False),
    ],
)
def test_what_has_the_form_of_a_state_is_doubted(value: torch.Tensor, doubt: bool) -> None:
    assert doubted(value) is doubt


def test_of_one_env_nothing_has_such_a_form() -> None:
    one = ToldCall(TOLD.arguments, TOLD.results)
    assert not doubted(torch.rand(1), told=one, rows=1)
    assert not doubted(torch.rand(1, HIDDEN), told=one, rows=1)


@pytest.mark.parametrize("begun", [True, False])
def test_a_fresh_state_is_one_for_another_batch_as_well(begun: bool) -> None:
    """Zero where the episode ended with the last step, and only there."""
    batch, other = batch_of(), batch_of()
    other["next", "done"] = other["next", "done"].flip(0, 1).roll(-1, 1)
    other["next", "h"] = other["next", "h"] + 1
    value = batch["next", "h"][:, -1].clone()
    if begun:
        value[1] = 0
    found = storages_in({"h": value}, batch, TOLD, frozenset()).parts["h",]
    assert isinstance(found, Storage)
    assert found.fresh is begun
    assert torch.equal(found.of(batch), value)
    wanted = other["next", "h"][:, -1].clone()
    if begun:
        wanted[other["next", "done"][:, -1, 0]] = 0
    assert torch.equal(found.of(other), wanted)
