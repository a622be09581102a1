"""What is seen in a constructed batch, in the words of a finding."""

from __future__ import annotations

from rnncheck.checks.evidence.comparison import Mismatch, OutputChange
from rnncheck.checks.rule import Observation
from rnncheck.numerics.difference import Difference
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Where


def _place_of(made: Constructed, difference: Difference) -> Where:
    """A difference's place in a constructed batch."""
    return Where(
        batch=(difference.row,),
        step=difference.step,
        feature=difference.feature,
        segment=int(made.segments[difference.row, difference.step]),
        first_step=difference.first_step,
    )


def sizes(made: Constructed, what: str = "constructed from the first steps of episodes") -> str:
    """``1 row x 32 steps in 6 segments, constructed from ...``."""
    count = int(made.starts.sum())
    return f"{made.rows} x {made.steps} steps in {count} segments, {what}"


def mismatch_observed(
    subject: Subject,
    made: Constructed,
    found: Mismatch,
    *,
    message: str,
    cause: str,
    fix: str,
) -> Observation:
    """A finding from a mismatch in a constructed batch."""
    d = found.difference
    return Observation(
        stage=subject.stage,
        message=message,
        key=dotted(found.key),
        quantity=f"max abs error of {dotted(found.key)} against the isolated replay",
        measured=d.worst,
        on=sizes(made),
        bound=found.bound,
        bound_formula=found.formula,
        where=_place_of(made, d),
        cause=cause,
        fix=fix,
        details={
            "elements beyond the bound": f"{d.differing} of {d.elements}",
            "relative to the largest value": f"{d.relative:.2g}",
        },
    )


def change_observed(
    subject: Subject,
    made: Constructed,
    found: OutputChange,
    *,
    message: str,
    cause: str,
    fix: str,
) -> Observation:
    """A finding from an isolation experiment: any bit that changed is too much."""
    d = found.difference
    return Observation(
        stage=subject.stage,
        message=message,
        key=dotted(found.key),
        quantity=f"change of {dotted(found.key)} where nothing may change",
        measured=d.worst,
        on=sizes(made),
        bound_formula="isolation is bitwise",
        where=_place_of(made, d),
        cause=cause,
        fix=fix,
        details={"steps that changed": f"{int(found.changed.sum())} of {found.changed.numel()}"},
    )
