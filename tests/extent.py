"""How much of a fixture's verification a test asks: its own check's family, or all of them.

What stands on either side of one check is asked that check's family in every run of the tests, and
every check where the slow ones run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest
from _pytest.mark import ParameterSet

EXTENTS = [
    pytest.param(False, id="family"),
    pytest.param(True, id="whole", marks=pytest.mark.slow),
]


def rows(names: Iterable[str], later: Collection[str]) -> list[ParameterSet | str]:
    """The names as rows of a test, of which the slow tests alone ask the ``later`` ones."""
    return [pytest.param(n, marks=pytest.mark.slow) if n in later else n for n in names]


def code_of(name: str) -> str:
    """The check that a fixture stands beside: ``ls703_loss_ignores_memory``, of either side."""
    return name.partition("_")[0].upper()


def families_of(name: str, covered: tuple[str, ...], *, whole: bool) -> tuple[str, ...]:
    """What is selected."""
    return covered if whole else (code_of(name)[:2],)


def seen_by(codes: set[str], families: tuple[str, ...]) -> set[str]:
    """Those of the codes that were asked."""
    return {code for code in codes if code.startswith(families)}
