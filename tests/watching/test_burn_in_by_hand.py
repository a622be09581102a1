"""``rnncheck run``: a burn-in inside of a loss, of a cell that has no other pass over sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnncheck.results.exit_codes import ExitCode
from tests.watching.burn_in_script import BURN_IN
from tests.watching.scripts import judged, run, written

GO_ON = (
    "starts[:, BURN:], warm",
    "torch.zeros_like(starts[:, BURN:]), warm",
)
STORED_NEXT = (
    "after = target.row(seen, starts, h).flatten(0, 1)",
    'after = batch["memory"].flatten(0, 1)',
)
CUT = ("h = self.cell(x[:, ::2], h * ~start)", "h = self.cell(x[:, ::2], h.detach() * ~start)")


@pytest.mark.slow
def test_all_of_it_is_judged(rnncheck: Any, tmp_path: Path) -> None:
    """Beside a teacher, whose collector ends ahead of training and whose notes nobody trains on."""
    code, told, _ = run(rnncheck, written(tmp_path, BURN_IN))
    assert code == ExitCode.VERIFIED
    assert {one["standing"] for one in told["guarantees"]} == {"shown"}


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("change", "codes", "named"),
    [
        pytest.param(GO_ON, "BD301", "BD301", id="no start is cleared behind it"),
        pytest.param(STORED_NEXT, "VL604", "VL604", id="what is seen next begins a step early"),
        pytest.param(CUT, "EQ205,GR801", "GR801", id="the graph is cut at every step"),
    ],
)
def test_its_faults_are_found(
    rnncheck: Any, tmp_path: Path, change: tuple[str, str], codes: str, named: str
) -> None:
    assert judged(rnncheck, tmp_path, codes, BURN_IN, change) == (ExitCode.FAILED, [named])


def test_rows_of_others_are_no_padding(rnncheck: Any, tmp_path: Path) -> None:
    """Though nobody who acts has collected them, and an entry says which they are."""
    drawn = "            loss = loss_of(net, target, batch)\n"
    named = (
        drawn,
        '            batch["theirs"] = torch.arange(7).gt(4)[:, None].expand(7, T)\n' + drawn,
    )
    found = judged(rnncheck, tmp_path, "RP505", BURN_IN, named)
    assert found == (ExitCode.NOT_SHOWN, [])  # there is no padding to ask of
