"""The checks: one file each, in their families. What a check of your own is made of is named
here."""

from rnncheck.checks.rule import Judgement, Observation, Rule, Skip, Vacuous
from rnncheck.results.model import Severity, Stage

__all__ = ["Judgement", "Observation", "Rule", "Severity", "Skip", "Stage", "Vacuous"]
