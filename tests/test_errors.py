"""How an exception is told in one line."""

from __future__ import annotations

import pytest

from rnncheck.errors import SpecError, StageError, first_line


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("a size\n  of 3"), "ValueError: a size"),
        (RuntimeError("\n  late text\n"), "RuntimeError: late text"),
        (AssertionError(), "AssertionError"),
        (SpecError("no env", hint="name one"), "no env"),
        (StageError("collect", "it ended"), "collect: it ended"),
    ],
)
def test_the_first_line_names_a_type_that_is_not_our_own(error: Exception, told: str) -> None:
    assert first_line(error) == told
