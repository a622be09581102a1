"""States that the lines of a loop read come in the order in which these mention them."""

from __future__ import annotations

import ast

import pytest

from rnncheck.watching.seams.acting_block import _first_mentions


@pytest.mark.parametrize(
    ("lines", "order"),
    [
        ("q, (h, c) = net(x, (h, c))", ["q", "h", "c", "net", "x"]),
        (
            "with no_grad():\n    y, state = net(obs, state)",
            ["no_grad", "y", "state", "net", "obs"],
        ),
        ("a = 1", ["a"]),
        ("", []),
    ],
)
def test_names_in_their_order(lines: str, order: list[str]) -> None:
    """A set of names has another one in every run: h and c were taken for each other in some."""
    found = _first_mentions(ast.parse(lines).body)
    assert sorted(found, key=lambda name: found[name]) == order
