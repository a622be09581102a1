"""``rnncheck run``: steps that a loss broadcasts over each other (LS708)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rnncheck.checks.evidence.crossed_steps import crossing_of
from rnncheck.results.exit_codes import ExitCode
from tests.watching import broadcast_script as scripts
from tests.watching import gaussian_script
from tests.watching.broadcast_script import Changes
from tests.watching.scripts import failed, planted, run, written

SLOW = pytest.mark.slow


def told(rnncheck: Any, path: Path) -> tuple[int, dict[str, Any]]:
    code, told, _ = run(rnncheck, "--select", "LS708", path)
    return code, told


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param("plain_single.py", scripts.VALUES, id="values"),
        pytest.param("plain_single.py", scripts.LOG_PROBS, id="log-probabilities", marks=SLOW),
        pytest.param("plain_single.py", scripts.WEIGHTED, id="weights", marks=SLOW),
        pytest.param("plain_vector.py", scripts.NEW_VALUES, id="values of minibatches", marks=SLOW),
        pytest.param("plain_vector.py", scripts.GAINS, id="advantages", marks=SLOW),
        pytest.param("plain_vector.py", scripts.RATIOS, id="ratios", marks=SLOW),
        pytest.param("plain_vector.py", scripts.ACTIONS, id="actions", marks=SLOW),
    ],
)
def test_by_accident(rnncheck: Any, tmp_path: Path, name: str, changes: Changes) -> None:
    code, found = told(rnncheck, planted(tmp_path, name, *changes))
    assert (code, failed(found)) == (ExitCode.FAILED, ["LS708"])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="none"),
        pytest.param(scripts.QUANTILES, id="as many quantiles as steps", marks=SLOW),
        pytest.param(scripts.DISTRIBUTIONS, id="distributions of values", marks=SLOW),
        pytest.param(scripts.RANKED, id="ranked", marks=SLOW),
        pytest.param(scripts.TOLD_APART, id="told apart", marks=SLOW),
    ],
)
def test_on_purpose(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    code, found = told(rnncheck, planted(tmp_path, "plain_single.py", *changes))
    assert (code, failed(found)) == (ExitCode.VERIFIED, [])


@pytest.mark.slow
def test_the_finding_names_the_line(rnncheck: Any, tmp_path: Path) -> None:
    path = planted(tmp_path, "plain_single.py", *scripts.VALUES)
    _, found = told(rnncheck, path)
    (finding,) = found["checks"][0]["findings"]
    line = path.read_text().splitlines().index("    advantage = torch.stack(found[::-1]) - values")
    assert finding["source"]["line"] == line + 1
    assert "[64, 1] meets [64, 1, 1]" in finding["message"]


@pytest.mark.parametrize(
    ("one", "other", "size"),
    [
        ((20, 1), (20,), 20),
        ((1, 20), (1, 20, 1), 20),
        ((4, 4), (4, 4, 1), 4),
        ((20, 1), (1, 20), None),
        ((20, 1), (20, 1), None),
        ((20,), (1,), None),
        ((20, 1), (8,), None),
        ((20, 1, 1), (20, 6), 20),
        ((20, 6, 1), (20, 1, 6), None),
        ((2, 1), (2,), None),
    ],
)
def test_which_shapes_cross(one: tuple[int, ...], other: tuple[int, ...], size: int | None) -> None:
    for operands in ((one, other), (other, one)):
        found = crossing_of([torch.zeros(shape) for shape in operands])
        assert (found and found[1]) == size


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), [], id="none"),
        pytest.param((gaussian_script.MEANS,), ["LS708"], id="means of a distribution"),
    ],
)
def test_actions_of_a_gaussian(
    rnncheck: Any, tmp_path: Path, changes: Changes, expected: list[str]
) -> None:
    path = written(tmp_path, gaussian_script.SCRIPT, *changes)
    code, found = told(rnncheck, path)
    ends = ExitCode.FAILED if expected else ExitCode.VERIFIED
    assert (code, failed(found)) == (ends, expected)
