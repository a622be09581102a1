"""What a check is. This module and the catalogue import no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rnncheck.results.model import Finding, Severity, Stage


class Skip(Exception):
    """The check cannot be asked here: a stage is absent, a device is missing. The message is the reason."""


class Vacuous(Exception):
    """The check ran and could not have failed. The message is the reason."""


@dataclass(frozen=True)
class Judgement:
    """What a check concluded: its findings, how many things it compared, and a word on what they were.

    ``severity`` is set where these findings weigh less than the rule's own.
    """

    findings: tuple[Finding, ...] = ()
    compared: int = 0
    note: str = ""
    severity: Severity | None = None


@dataclass(frozen=True)
class Rule:
    """One named way of going wrong.

    ``needs`` are the stages without which the check is skipped. ``run`` takes the evidence of a run and returns a
    Judgement, or raises Skip or Vacuous.
    """

    code: str
    name: str
    severity: Severity
    stage: Stage
    run: Callable[[Any], Judgement]
    needs: tuple[Stage, ...] = field(default=())
