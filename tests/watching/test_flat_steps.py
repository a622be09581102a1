"""``rnncheck run``: TorchRL's envs that a loop steps by itself, with lists of tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.flat_script import (
    AT_THE_END,
    BY_MODULE,
    BY_NETWORK,
    CUT,
    FROM_BEFORE,
    GRAPHED,
    HANDED,
    KEPT,
    LISTS,
    NEVER_RESET,
    NO_STARTS,
    OLD_STATE,
    OWN_STEP,
    RUNS_ON,
    STACKED,
)
from tests.watching.scripts import failed, judged, run, written

Changes = tuple[tuple[str, str], ...]
_ASKED = "BD301,BD306,CL403,CL406,EQ201,GR801,LS701,RP504,VL603,VL604,WR112"


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("text", "changes", "codes", "expected"),
    [
        pytest.param(LISTS, (), _ASKED, [], id="lists", marks=pytest.mark.slow),
        pytest.param(LISTS, (AT_THE_END,), "RP504", ["RP504"], id="lists, from the end"),
        pytest.param(
            LISTS, (OWN_STEP,), "EQ201", ["EQ201"], id="lists, own step", marks=pytest.mark.slow
        ),
        pytest.param(HANDED, (), _ASKED, [], id="handed on", marks=pytest.mark.slow),
        pytest.param(HANDED, (AT_THE_END,), "RP504", ["RP504"], id="handed on, from the end"),
        pytest.param(
            STACKED, (BY_NETWORK,), _ASKED + ",WR103", [], id="stacked", marks=pytest.mark.slow
        ),
        pytest.param(
            STACKED,
            (BY_MODULE,),
            _ASKED + ",WR103",
            [],
            id="stacked, by a module",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            STACKED,
            (BY_NETWORK, NO_STARTS),
            "BD301",
            ["BD301"],
            id="stacked, no starts",
            marks=pytest.mark.slow,
        ),
        pytest.param(STACKED, (BY_MODULE, NO_STARTS), "BD301", ["BD301"], id="by a module, too"),
        pytest.param(
            STACKED,
            (BY_NETWORK, OLD_STATE),
            "VL604",
            ["VL604"],
            id="stacked, old state",
            marks=pytest.mark.slow,
        ),
        pytest.param(GRAPHED, (), _ASKED, [], id="graphed", marks=pytest.mark.slow),
        pytest.param(
            GRAPHED, (CUT,), "GR801", ["GR801"], id="graphed, cut", marks=pytest.mark.slow
        ),
        pytest.param(GRAPHED, (NEVER_RESET,), "CL403", ["CL403"], id="graphed, never reset"),
    ],
)
def test_what_is_named(
    rnncheck: Any,
    tmp_path: Path,
    text: str,
    changes: Changes,
    codes: str,
    expected: list[str],
) -> None:
    code = ExitCode.FAILED if expected else ExitCode.VERIFIED
    assert judged(rnncheck, tmp_path, codes, text, *changes) == (code, expected)


@pytest.mark.slow
@pytest.mark.first(1)
@pytest.mark.parametrize("text", [LISTS, HANDED])
def test_a_value_of_what_was_shown_next_from_the_state_before_is_not_shown(
    rnncheck: Any, tmp_path: Path, text: str
) -> None:
    asked = judged(rnncheck, tmp_path, "VL604", text, FROM_BEFORE)
    assert asked == (ExitCode.NOT_SHOWN, [])


PRIMED = """
import torch
from torchrl.data import Unbounded
from torchrl.envs import Compose, GymEnv, InitTracker, SerialEnv, TensorDictPrimer, TransformedEnv

primer = TensorDictPrimer({"h": Unbounded((4,))})
env = TransformedEnv(SerialEnv(2, lambda: GymEnv("CartPole-v1")), Compose(InitTracker(), primer))
assert env.reset()["h"].shape == (2, 4)
print("reset")
"""


def test_the_envs_specs_are_not_asked_before_its_reset(rnncheck: Any, tmp_path: Path) -> None:
    """A primer that is not told to expand its specs does that at the first reset alone."""
    done = rnncheck("run", str(written(tmp_path, PRIMED)), cwd=tmp_path)
    assert "reset" in done.stdout
    assert done.returncode == ExitCode.NOT_SHOWN


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (ExitCode.VERIFIED, []), id="healthy", marks=pytest.mark.slow),
        pytest.param(
            (RUNS_ON,), (ExitCode.FAILED, ["BD301"]), id="no starts", marks=pytest.mark.slow
        ),
    ],
)
def test_a_saved_one_is_judged_alike(
    rnncheck: Any, tmp_path: Path, changes: Changes, expected: tuple[int, list[str]]
) -> None:
    path, file = written(tmp_path, KEPT, *changes), tmp_path / "seen.rnncheck"
    asked = "--select", "BD301,WR112"
    code, told, _ = run(rnncheck, *asked, "--save", file, path, cwd=tmp_path)
    assert (code, failed(told)) == expected
    again = rnncheck("verify", "--report", "json", *asked, str(file), cwd=tmp_path)
    assert (again.returncode, failed(json.loads(again.stdout))) == expected
