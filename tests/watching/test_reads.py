"""Which names lines of Python read as they were before them."""

from __future__ import annotations

import ast

import pytest

from rnncheck.watching.seams.reads import read_first


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ("a = b\nc = a", {"b"}),
        ("a += 1", {"a"}),
        ("x[0] = y", {"x", "y"}),
        ("with f():\n    a = b\nc = a", {"f", "b"}),
        ("for i in n:\n    a = i\nb = a", {"n"}),
        ("if c:\n    a = 1\nb = a", {"c", "a"}),
        ("if c:\n    a = 1\nelse:\n    a = 2\nb = a", {"c"}),
        ("a = [x for x in b]", {"b"}),
        ("def f(a):\n    return a + b\nf(1)", {"a", "b"}),
        ("try:\n    a = b\nexcept E:\n    a = c\nd = a", {"b", "E", "c"}),
        ("while a:\n    a = b", {"a", "b"}),
    ],
)
def test_names_that_are_read_before_they_are_bound(lines: str, names: set[str]) -> None:
    assert read_first(ast.parse(lines).body) == names
