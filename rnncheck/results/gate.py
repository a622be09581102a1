"""What a gate decided, as data: one item for every budget, comparison and acceptance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Ruling(StrEnum):
    """How one item of a gate ended."""

    PASSED = "passed"
    FAILED = "failed"  # something is wrong or gone that was right or there
    SLOWER = "slower"  # beyond what is allowed, and the interval says so
    UNCLEAR = "unclear"  # the data do not carry a verdict; fails under --strict alone
    INCOMPARABLE = "not comparable"  # another machine, other libraries; fails nothing
    NOTED = "noted"  # worth knowing; fails nothing


class Part(StrEnum):
    """Which part of the gate an item belongs to."""

    BUDGET = "budget"
    BASELINE = "baseline"
    AGAINST = "against"
    ACCEPTANCE = "acceptance"


@dataclass(frozen=True)
class GateItem:
    """One decision. ``value``, its 95 % interval ``low`` to ``high`` and ``limit`` are in ``unit``.

    ``unit`` is ``ms``, ``MiB``, ``x`` (a ratio) or empty; ``kind`` of the limit is ``max`` or
    ``min``.
    """

    part: Part
    name: str  # what was asked, in words: "speedup of scan-compiled over pad, train 32 x 64"
    ruling: Ruling
    reason: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    kind: str = ""
    unit: str = ""
    ratios: tuple[
        float, ...
    ] = ()  # of each fresh pair of processes; empty where one process measured it
    path: str = ""  # the spec, with the line and column that ask for it
    line: int = 0
    column: int = 0

    def fails(self, *, strict: bool) -> bool:
        """Whether the gate fails because of it."""
        return self.ruling in (Ruling.FAILED, Ruling.SLOWER) or (
            strict and self.ruling is Ruling.UNCLEAR
        )
