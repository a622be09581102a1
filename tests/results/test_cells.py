"""Cells as they are stored: the same keys and the same text in every version."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from rnncheck.results.cells import Cell, CellResult, Phase, Status, cell_from_json, cell_to_json
from rnncheck.results.encode import restore_cells
from rnncheck.results.variant import OWN, Variant, parse_variant

STORED = [  # cells with the keys and labels that the first stored results have
    (
        Cell(Phase.TRAIN, parse_variant("scan-recompute-compiled"), 32, 64, 0.03),
        "48fa7e7d0391",
        "scan-recompute-compiled | train, 32 x 64, 0.03 resets",
    ),
    (
        Cell(Phase.ACT, OWN, 4, 1, 0.0, "module", {"hidden_size": 8, "kind": "GRU"}),
        "ce6efdab1c8f",
        "own | act, 4, hidden_size 8, kind GRU, bare module",
    ),
    (
        Cell(Phase.FORWARD, parse_variant("triton-tf32x3-compute_bfloat16"), 2, 8, 0.0),
        "2962ff5cc01d",
        "triton-compute_bfloat16-tf32x3 | forward, 2 x 8, 0 resets",
    ),
]


@pytest.mark.parametrize(("cell", "key", "label"), STORED)
def test_a_cell_keeps_its_key_and_its_label(cell: Cell, key: str, label: str) -> None:
    assert (cell.key, cell.label) == (key, label)


@pytest.mark.parametrize("cell", [cell for cell, _, _ in STORED])
def test_a_stored_cell_is_read_back(cell: Cell) -> None:
    stored = json.loads(json.dumps(cell_to_json(CellResult(cell, Status.OK))))
    assert stored["cell"]["variant"] == cell.variant.label
    assert cell_from_json(restore_cells(stored)).cell == cell


def test_variants_that_mean_the_same_are_one_cell() -> None:
    texts = ("triton-tf32x3-compute_bfloat16", "triton-compute_bfloat16-tf32x3")
    assert len({Cell(Phase.ACT, parse_variant(text), 1, 1, 0.0).key for text in texts}) == 1


@pytest.mark.parametrize("wrong", ["pda", "", 3, None, {"backend": "pad"}])
def test_a_stored_cell_of_no_variant_is_refused_by_its_place(wrong: object) -> None:
    stored = cell_to_json(CellResult(Cell(Phase.ACT, Variant(), 1, 1, 0.0), Status.OK))
    stored["cell"]["variant"] = wrong
    with pytest.raises(ValidationError) as raised:
        cell_from_json(stored)
    (error,) = raised.value.errors()
    assert error["loc"] == ("cell", "variant")
