"""Which segments are changed together: neighbours never, neither in a row nor from one row to the
next."""

from __future__ import annotations

import pytest
import torch

from rnncheck.checks.evidence.batch_isolation import through_rows


@pytest.mark.parametrize(
    "rows",
    [
        [[0, 0, 1, 1], [0, 1, 1, 2], [0, 0, 0, 0]],
        [
            [0, 1, 2, 2],
            [0, 1, 2, 2],
        ],  # odd numbers of segments: the parities of the rows would meet
        [[-1, 0, 0, 1], [0, 0, 1, 2]],  # a row that begins before its first mark
        [[0, 0], [0, 0], [0, 0]],
    ],
)
def test_neighbours_differ_in_parity_when_the_rows_are_joined(rows: list[list[int]]) -> None:
    segments = torch.tensor(rows)
    joined = through_rows(segments).flatten()
    starts = torch.zeros_like(segments, dtype=torch.bool)
    starts[:, 0] = True
    starts[:, 1:] = segments.diff(dim=1) != 0
    assert torch.equal(joined, starts.flatten().long().cumsum(0) - 1)
