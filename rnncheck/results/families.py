"""The families of checks: the one table of their code prefixes, folders and titles."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile


@dataclass(frozen=True)
class Family:
    """Checks that look at one thing; ``prefix`` begins their codes, ``folder`` has their files."""

    prefix: str
    folder: str
    title: str
    about: str


FAMILIES = (
    Family("WR", "wiring", "wiring", "read from specs and modules, one reset"),
    Family("EQ", "equivalence", "equivalence", "the same numbers step by step and all at once"),
    Family("BD", "boundary", "boundary", "nothing crosses where nothing may"),
    Family("CL", "collect", "collect", "what the collector recorded"),
    Family("RP", "replay", "replay", "what the loss is called on, whatever made it"),
    Family("VL", "value", "value", "advantages and targets"),
    Family("LS", "loss", "loss", "what the loss makes of a training batch"),
    Family(
        "GR", "gradient", "gradient and training", "what reaches the weights, and what they learn"
    ),
    Family("PR", "precision", "precision", "in how many bits the recurrence is computed and kept"),
)


def prefix_of(code: str) -> str:
    """The letters that a code begins with: of one of rnncheck's own, its family's."""
    return "".join(takewhile(str.isalpha, code))


OWN_CHECKS = Family("", "own", "own checks", "of the spec, and of installed packages")
BY_PREFIX = {family.prefix: family for family in FAMILIES}
BY_FOLDER = {family.folder: family for family in FAMILIES}
