"""What both checks of the backends say about a run."""

from __future__ import annotations

from collections.abc import Iterable

from rnncheck.checks.equivalence.backend_trials import BackendTrials, Tried
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Deferred
from rnncheck.pipeline.backends.process import NoAnswer
from rnncheck.pipeline.backends.trial import Refused


def refuses(one: Tried) -> bool:
    """An eager variant raised although nothing that is known of it and of this machine stands
    against it."""
    silent = isinstance(one.answer, NoAnswer) or not isinstance(one.answer, Refused)
    return not silent and one.variant.compile == "eager" and one.way == "call"


def summary(made: BackendTrials) -> str:
    """What was run and on which kernels and shapes, and what was not and why."""
    reasons = {
        f"{one.variant.label} ({one.way})" if one.way != "call" else one.variant.label: str(
            one.answer
        )
        for one in made.tried
        if isinstance(one.answer, Refused) and not refuses(one)
    }
    left = "; ".join(f"{label} gave nothing: {reason}" for label, reason in reasons.items())
    return "; ".join(filter(None, [made.summary(), left]))


def trial_words(one: Tried) -> str:
    """The case, its shape, the kernels and whose weights."""
    case, facts = one.case, one.facts
    whose = "the module's own weights" if one.own else f"a {facts} of the same kind"
    way = "" if one.way == "call" else f", {one.way}"
    return f"{case.name}{way}: {case.shape} steps, hidden {facts.hidden_size}, {one.how}, {whose}"


def already_said(evidence: Evidence, codes: Iterable[str]) -> None:
    """Raise Deferred where another check names the fault: without named backends it is the module's
    own pass."""
    for code in codes:
        if evidence.finds(code):
            raise Deferred(f"the module's own pass is wrong already ({code})", code)
