"""``rnncheck run``: actions of other steps beside a term of the loss that uses them rightly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.next_values_script import OWN, changed
from tests.watching.scripts import judged

_OPTIMISER = "optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], 3e-4)\n"
_LOSS = "    return gain.square().mean() - (told * gain.detach()).mean()\n"
# A model of what is observed next.
BESIDE = changed(
    OWN,
    (
        _OPTIMISER,
        """model = nn.Linear(26, 4)
shared = [*actor.parameters(), *critic.parameters()]
optim = torch.optim.Adam([*shared, *model.parameters()], 3e-4)
""",
    ),
    (
        _LOSS,
        """    taken = nn.functional.one_hot(batch["action"], 2).float()
    guessed = model(torch.cat([td["feat"], taken], -1))
    error = (guessed - batch["next", "observation"]).square().mean()
    return gain.square().mean() - (told * gain.detach()).mean() + error
""",
    ),
)
SHIFTED = ('dist.log_prob(batch["action"])', 'dist.log_prob(batch["action"].roll(1, 1))')
# The model tells what was done before, out of the memory.
REMEMBERED = (
    'one_hot(batch["action"], 2)',
    'one_hot(batch["action"].roll(1, 1), 2)',
)
# Its policy does the same at every step.
DECIDED = (
    _OPTIMISER,
    "with torch.no_grad():\n    [*actor.parameters()][-1].copy_(torch.tensor([40.0, -40.0]))\n"
    + _OPTIMISER,
)
VERIFIED = (ExitCode.VERIFIED, list[str]())
Changes = tuple[tuple[str, str], ...]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), VERIFIED, id="its own"),
        pytest.param(
            (REMEMBERED,), VERIFIED, id="the other term remembers", marks=pytest.mark.slow
        ),
        pytest.param((SHIFTED,), (ExitCode.FAILED, ["LS707"]), id="of the step before"),
    ],
)
def test_beside_a_model_of_what_follows(
    rnncheck: Any, tmp_path: Path, changes: Changes, expected: tuple[int, list[str]]
) -> None:
    text = changed(BESIDE, *changes)
    assert judged(rnncheck, tmp_path, "LS707", text) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), VERIFIED, id="its own"),
        pytest.param((SHIFTED,), (ExitCode.FAILED, ["LS707"]), id="of the step before"),
    ],
)
def test_where_all_actions_are_one(
    rnncheck: Any, tmp_path: Path, changes: Changes, expected: tuple[int, list[str]]
) -> None:
    """Others that the env has stand in for those of other steps."""
    text = changed(OWN, DECIDED, *changes)
    assert judged(rnncheck, tmp_path, "LS707", text) == expected
