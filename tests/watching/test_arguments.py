"""What a function was given, though its lines have bound the name anew."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch

from rnncheck.watching.seams.arguments import UNTOLD, bound_anew, given_by_caller


def first_of(rows: Any) -> tuple[bool, Any]:
    before = bool(bound_anew(sys._getframe(), ["rows"]))
    rows = rows[:1]
    frame = sys._getframe()
    return before or not bound_anew(frame, ["rows"]), given_by_caller(frame, "rows", bound=False)


def given_to(rows: Any) -> Any:
    rows = [rows]
    return given_by_caller(sys._getframe(), "rows", bound=False)


def test_a_name_is_bound_anew_behind_its_assignment() -> None:
    batch = [1, 2]
    assert first_of(batch) == (False, batch)
    assert first_of(rows=batch) == (False, batch)
    nothing = None
    assert given_to(nothing) is None
    assert given_to((batch, 3)) == (batch, 3)
    assert given_to(batch[:]) is UNTOLD  # no variable of the caller's


def test_some_numbers_of_an_array_were_given() -> None:
    """Of arrays and tensors alone, at places that are written there or in variables."""
    seen, at = np.arange(6.0).reshape(2, 3), 1
    assert given_to(seen[:, :2]).tolist() == [[0.0, 1.0], [3.0, 4.0]]
    assert given_to(seen[at]).tolist() == [3.0, 4.0, 5.0]
    assert given_to(seen[0][[0, -1]]).tolist() == [0.0, 2.0]
    assert given_to(torch.as_tensor(seen)[0]) is UNTOLD  # of what a call gives
    assert given_to(seen[seen > 2]) is UNTOLD


@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_method_was_given_what_its_caller_holds(by_keyword: bool) -> None:
    batch, found = [1, 2], list[Any]()

    class Learner:
        def update(self, rows: Any, scale: int = 1) -> None:
            rows = [rows, scale]
            found.append(given_by_caller(sys._getframe(), "rows", bound=True))

    learner = Learner()
    if by_keyword:
        learner.update(scale=2, rows=batch)
    else:
        learner.update(batch, 2)
    assert found == [batch]


def test_what_only_a_keyword_gives_is_known_as_well() -> None:
    def given(*, rows: Any) -> Any:
        rows = [rows]
        return given_by_caller(sys._getframe(), "rows", bound=False)

    batch = [1, 2]
    assert given(rows=batch) == batch


def test_names_that_are_bound_together_are_bound() -> None:
    """Python 3.13 has one instruction for two of them."""

    def swapped(rows: Any, scale: Any) -> list[str]:
        rows, scale = scale, rows
        both = bound_anew(sys._getframe(), ["rows", "scale"])
        rows = [scale]
        return both if rows else []

    assert swapped(1, 2) == ["rows", "scale"]
