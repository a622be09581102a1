"""The checks: one file each, in their families. What a check of your own is made of is named
here."""

from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
)
from rnncheck.results.model import Severity, Stage

__all__ = [
    "CouldNotLook",
    "Deferred",
    "Judgement",
    "NotApplicable",
    "Observation",
    "Rule",
    "Severity",
    "Stage",
]
