"""``rnncheck run``: observations that a script keeps as arrays, and rewards that it sums up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching import arrays_script as scripts
from tests.watching.scripts import failed, run

GRADIENTS = ("BD303", "GR801", "GR805", "LS707")


def ran(rnncheck: Any, folder: Path, text: str, *codes: str) -> tuple[int, list[str], Any]:
    (folder / "train.py").write_text(text)
    options = [part for code in codes for part in ("--select", code)]
    code, told, _ = run(rnncheck, *options, folder / "train.py")
    return code, failed(told), told


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="from_numpy", marks=pytest.mark.slow),
        pytest.param((scripts.FLOAT_TENSOR,), id="FloatTensor", marks=pytest.mark.slow),
        pytest.param((scripts.COPIED,), id="copied", marks=pytest.mark.slow),
    ],
)
def test_gradients_at_arrays_are_seen(
    rnncheck: Any, tmp_path: Path, changes: tuple[scripts.Change, ...]
) -> None:
    code, found, told = ran(rnncheck, tmp_path, scripts.changed(*changes), *GRADIENTS)
    assert (code, found) == (ExitCode.VERIFIED, [])
    outcomes = {one["code"]: one["outcome"] for one in told["checks"]}
    assert outcomes.pop("BD303") == "not-applicable"  # each row is one whole episode
    assert {outcomes[code] for code in GRADIENTS if code in outcomes} == {"passed"}


@pytest.mark.slow
def test_a_loop_over_arrays_is_verified(rnncheck: Any, tmp_path: Path) -> None:
    code, found, _ = ran(rnncheck, tmp_path, scripts.HEALTHY)
    assert (code, found) == (ExitCode.VERIFIED, [])


def test_a_cut_graph_behind_arrays(rnncheck: Any, tmp_path: Path) -> None:
    code, found, _ = ran(rnncheck, tmp_path, scripts.changed(scripts.CUT), "GR801")
    assert (code, found) == (ExitCode.FAILED, ["GR801"])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((scripts.LATE,), id="of the step before"),
        pytest.param((scripts.EARLY,), id="of the step behind", marks=pytest.mark.slow),
    ],
)
def test_sums_of_rewards_beside_another_step(
    rnncheck: Any, tmp_path: Path, changes: tuple[scripts.Change, ...]
) -> None:
    code, found, _ = ran(rnncheck, tmp_path, scripts.changed(*changes), "LS707")
    assert (code, found) == (ExitCode.FAILED, ["LS707"])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((scripts.NORMALISED,), id="normalised", marks=pytest.mark.slow),
        pytest.param((scripts.WHOLE_RETURN,), id="whole return", marks=pytest.mark.slow),
        pytest.param((scripts.BASELINE,), id="baseline", marks=pytest.mark.slow),
    ],
)
def test_sums_of_rewards_that_are_right(
    rnncheck: Any, tmp_path: Path, changes: tuple[scripts.Change, ...]
) -> None:
    _, found, _ = ran(rnncheck, tmp_path, scripts.changed(*changes), "LS707")
    assert found == []
