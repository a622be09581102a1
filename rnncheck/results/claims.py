"""What the documentation claims about the backends, and what this machine says to it, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """What came of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNCLEAR = "unclear"
    UNTESTED = "cannot be tested here"


@dataclass(frozen=True)
class Claim:
    """One claim with the numbers behind the answer; ``cells`` are the keys of the rows that
    decided."""

    text: str
    answer: Answer
    why: str
    cells: tuple[str, ...] = ()
