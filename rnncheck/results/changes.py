"""What became of a row of two stored runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Change(StrEnum):
    """What became of a row."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNCLEAR = "unclear"
    INCOMPARABLE = "not comparable"
    NEW = "new"
    GONE = "gone"
    BROKEN = "broken"  # it counted, and no longer does
    FIXED = "fixed"  # the reverse
    MORE = "more"  # a measure of the memory
    LESS = "less"  # the same
    FAILS = "newly fails"  # a check
    PASSES = "no longer fails"  # a check


@dataclass(frozen=True)
class RowChange:
    """One row of the comparison. ``value`` above 1: the second is faster; ``basis`` says what was
    compared."""

    label: str
    change: Change
    reason: str = ""
    basis: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
