"""Which of a part's calls are those on the steps of a batch, and which are noted as one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rnncheck.watching.forms.part_outputs import (
    CallsNoted,
    PartOutputs,
    behind_burn_in,
    over_steps,
    own_calls,
)

ROWS, STEPS = 2, 3
SEEN, NEXT = (torch.rand(ROWS, STEPS, 4) for _ in range(2))


def by_turns() -> list[Tensor]:
    return [one[:, t] for t in range(STEPS) for one in (SEEN, NEXT)]


def test_calls_by_turns_are_told_by_what_was_recorded() -> None:
    calls = by_turns()
    for recorded, first in ((SEEN, 0), (NEXT, 1)):
        found = own_calls(calls, recorded, ROWS, STEPS, time_first=False)
        assert found == slice(first, None, 2)
        laid = over_steps(calls[found], ROWS, STEPS, time_first=False)
        assert laid is not None and torch.equal(laid, recorded)


def test_one_pass_behind_the_other_is_the_first() -> None:
    calls = [*SEEN.unbind(1), *NEXT.unbind(1)]
    assert own_calls(calls, SEEN, ROWS, STEPS, time_first=False) == slice(None)
    assert own_calls(calls, None, ROWS, STEPS, time_first=False) == slice(None)


def test_steps_without_a_graph_stand_ahead_of_the_others() -> None:
    trained = SEEN[:, 1:].clone().requires_grad_()
    for calls in ([SEEN[:, 0], *trained.unbind(1)], [SEEN[:, :1], NEXT, trained]):
        found, count = behind_burn_in(calls, ROWS, STEPS, time_first=False)
        assert found is not None and torch.equal(found, SEEN)
        assert count == 1
    assert behind_burn_in([SEEN], ROWS, STEPS, time_first=False) == (None, 0)
    assert behind_burn_in([trained], ROWS, STEPS, time_first=False) == (None, 0)


def test_calls_for_parts_of_the_rows_are_one_call() -> None:
    part = nn.Linear(4, 4)
    rows = torch.rand(5, 4)
    with PartOutputs({"part": part}) as noted:
        part(rows[:1])
        later = CallsNoted()
        part(rows)
        later.take_back()
        for begin in (0, 3):
            part(torch.cat([rows[begin : begin + 3], rows[:1]])[:3])
        later.join([3, 2], 3)
    first, joined = noted.given["part"]
    assert first.shape == (1, 4)
    assert torch.allclose(joined, part(rows))
