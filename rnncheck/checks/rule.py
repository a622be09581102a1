"""What a check is. This module and the catalogue import no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rnncheck.results.model import Severity, Source, Stage, Where


class Skip(Exception):
    """The check cannot be asked here: a stage is absent, a device is missing. The message is the
    reason."""


class Vacuous(Exception):
    """The check ran and could not have failed. The message is the reason."""


@dataclass(frozen=True)
class Observation:
    """What a failed check alone knows; the runner makes a Finding of it.

    ``measured`` and ``bound`` are in the unit of ``quantity``; ``measured`` is None for what is
    seen in the structure. ``passing_bound`` is the smallest bound that would have passed, where it
    is not what was measured. ``stage`` is where it was seen, where that is not the rule's own
    stage. ``source`` is the line to change, or the stage whose line it is, where that is not
    ``stage``.
    """

    message: str
    cause: str = ""
    fix: str = ""
    key: str = ""
    quantity: str = ""
    measured: float | None = None
    on: str = ""
    bound: float = 0.0
    bound_formula: str = "none"
    passing_bound: float | None = None
    where: Where | None = None
    stage: Stage | None = None
    source: Source | Stage | None = None
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Judgement:
    """What a check concluded: what it saw, how many things it compared, and a word on what they
    were.

    ``severity`` is set where these findings weigh less than the rule's own.
    """

    findings: tuple[Observation, ...] = ()
    compared: int = 0
    note: str = ""
    severity: Severity | None = None


@dataclass(frozen=True)
class Rule:
    """One named way of going wrong.

    ``needs`` are the stages without which the check is skipped. ``run`` takes the evidence of a run
    and returns a Judgement, or raises Skip or Vacuous.
    """

    code: str
    name: str
    severity: Severity
    stage: Stage
    run: Callable[[Any], Judgement]
    needs: tuple[Stage, ...] = field(default=())
