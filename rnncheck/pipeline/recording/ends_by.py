"""What the episodes of a watched loop were seen to end by."""

from __future__ import annotations

from enum import StrEnum


class EndsBy(StrEnum):
    """``LIMITS`` of time alone; ``ONE_FLAG`` for all ends, which may stand for such limits."""

    ANY = "any"
    LIMITS = "limits"
    ONE_FLAG = "one flag"
