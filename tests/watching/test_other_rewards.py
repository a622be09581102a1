"""``rnncheck run``: rewards of other steps, and rewards in other forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.next_values_script import changed
from tests.watching.rewards_script import BY_HAND, OF_THE_LAST, PAID, paid
from tests.watching.scripts import failed, run

SLOW = pytest.mark.slow
Changes = tuple[tuple[str, str], ...]


def ran(rnncheck: Any, folder: Path, *changes: tuple[str, str]) -> tuple[int, list[str], str]:
    (folder / "train.py").write_text(changed(PAID, *changes))
    code, told, _ = run(rnncheck, "--select", "RP509", folder / "train.py")
    return code, failed(told), told["checks"][0]["outcome"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((), id="as they were"),
        pytest.param((paid("0.1 * r"),), id="scaled", marks=SLOW),
        pytest.param((paid("r.clamp(-1, 1)"),), id="clipped", marks=SLOW),
        pytest.param((paid("r.sign()"),), id="signs", marks=SLOW),
        pytest.param((paid("(r - r.mean()) / r.std()"),), id="normalised"),
        pytest.param((paid("(r - r.mean(0)) / r.std(0)"),), id="over the rows", marks=SLOW),
        pytest.param((BY_HAND,), id="stored by hand", marks=SLOW),
    ],
)
def test_rewards_in_another_form(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    assert ran(rnncheck, tmp_path, *changes) == (ExitCode.VERIFIED, [], "passed")


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((paid("r.roll(1, 1)"),), id="a step late"),
        pytest.param((paid("r.roll(-1, 1)"),), id="a step early", marks=SLOW),
        pytest.param((paid("r.roll(1, 0)"),), id="of another row", marks=SLOW),
        pytest.param((BY_HAND, OF_THE_LAST), id="stored a step late"),
        pytest.param((paid("0.1 * r.roll(1, 1)"),), id="a step late and scaled", marks=SLOW),
        pytest.param((paid("r.roll(1, 1).clamp(-1, 1)"),), id="a step late and clipped"),
        pytest.param(
            (paid("((r - r.mean()) / r.std()).roll(1, 1)"),), id="a step late and normalised"
        ),
    ],
)
def test_rewards_of_another_step(rnncheck: Any, tmp_path: Path, changes: Changes) -> None:
    assert ran(rnncheck, tmp_path, *changes) == (ExitCode.FAILED, ["RP509"], "failed")
