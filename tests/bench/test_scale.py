"""How cost grows: the fit finds the exponent that the rows were made with."""

from __future__ import annotations

import pytest

from rnncheck.bench.scale import parse_scale, scaled_cells, scalings
from rnncheck.errors import UserError
from rnncheck.results.cells import Cell, Phase
from rnncheck.results.variant import Variant
from tests.bench.rows import row


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("steps=16..128", [16, 32, 64, 128]),
        ("batch=1..6", [1, 2, 4, 6]),
        ("resets=0..0.1", [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
    ],
)
def test_a_range_is_doubled_or_evenly_spaced(text: str, values: list[float]) -> None:
    assert parse_scale(text) == (text.partition("=")[0], values)


@pytest.mark.parametrize("text", ["stps=1..2", "steps=", "steps=9..3", "resets=0..2", "steps=a..b"])
def test_a_wrong_range_is_one_sentence(text: str) -> None:
    with pytest.raises(UserError, match="AXIS=FROM"):
        parse_scale(text)


def test_acting_has_no_steps_to_vary() -> None:
    cells = [Cell(Phase.ACT, Variant(), 4, 1, 0.0), Cell(Phase.TRAIN, Variant(), 4, 8, 0.0)]
    assert {c.phase for c in scaled_cells(cells, "steps", [8, 16])} == {Phase.TRAIN}
    assert len(scaled_cells(cells, "batch", [8, 16])) == 4
    assert [c.overrides for c in scaled_cells(cells[:1], "hidden", [8])] == [{"hidden_size": 8}]


def test_the_exponent_is_found_with_its_interval() -> None:
    rows = [row("pad", 1e-3 * steps**1.5, steps=steps) for steps in (8, 16, 32, 64)]
    (found,) = scalings(rows, "steps")
    assert found.exponent == pytest.approx(1.5)
    assert found.low <= 1.5 <= found.high
    assert "time ~ steps^1.50" in found.sentence


def test_a_cost_that_is_no_power_says_so() -> None:
    rows = [row("pad", 1e-3 if steps < 32 else 1.0, steps=steps) for steps in (8, 16, 32, 64)]
    (found,) = scalings(rows, "steps")
    assert "no straight line" in found.sentence


def test_resets_add_a_share_each() -> None:
    rows = [row("pad", 1e-3 * (1 + 4 * p), resets=p) for p in (0.0, 0.05, 0.1)]
    (found,) = scalings(rows, "resets")
    assert found.exponent == pytest.approx(4)
    assert "each 1 % of resets adds 4.00 %" in found.sentence


def test_two_points_are_no_law() -> None:
    assert scalings([row("pad", 1.0, steps=8), row("pad", 2.0, steps=16)], "steps") == []
