"""What a check is. This module and the catalogue import no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rnncheck.results.model import Severity, Source, Stage, Where


class Unanswered(Exception):
    """The check gives no verdict; one of the three kinds below says why. The message is the
    reason: what was seen or raised."""


class NotApplicable(Unanswered):
    """The fault is impossible here by structure, or its stage is not in the spec."""


class Deferred(Unanswered):
    """A fault that another check names is in the way.

    ``codes`` are the checks that may name it. The runner holds it to that: where none of them fails
    in this run, the check could not look.
    """

    def __init__(self, reason: str, *codes: str) -> None:
        super().__init__(reason)
        self.codes = codes


class CouldNotLook(Unanswered):
    """Something raised, there was too little data, it took too long, the difference was
    zero-sized."""


_WEIGHTS = (CouldNotLook, Deferred, NotApplicable)  # what is said first of several


def weightiest(unanswered: Iterable[Unanswered]) -> Unanswered | None:
    """What keeps a check from an answer most: what could not be looked at before what is
    deferred, that before what is impossible. None of nothing."""
    found = list(unanswered)
    return next((one for kind in _WEIGHTS for one in found if isinstance(one, kind)), None)


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

    ``severity`` is set where these findings weigh less than the rule's own. ``unanswered`` are the
    parts of the question that stayed open, such as one of two modes: without findings, a part that
    could not be looked at leaves the whole check without an answer.
    """

    findings: tuple[Observation, ...] = ()
    compared: int = 0
    note: str = ""
    severity: Severity | None = None
    unanswered: tuple[Unanswered, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One named way of going wrong.

    ``needs`` are the stages without which the check is not applicable. ``run`` takes the evidence
    of a run and returns a Judgement, or raises NotApplicable, Deferred or CouldNotLook. ``holds``
    is what is true where it passes, in words. ``dear`` is one that runs the pipeline many times
    over: it is asked last, and ``--fast`` does not ask it. ``as_set`` is one that asks about
    precision: it runs in the one that torch is set to. ``replays`` is one that holds what was
    recorded against what is computed again: running statistics that moved meanwhile part the two.
    """

    code: str
    name: str
    severity: Severity
    stage: Stage
    run: Callable[[Any], Judgement]
    needs: tuple[Stage, ...] = field(default=())
    holds: str = ""
    dear: bool = False
    as_set: bool = False
    replays: bool = False
