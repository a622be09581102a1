"""All rules, imported from the files that the catalogue lists."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from rnncheck.checks.catalogue import entries
from rnncheck.checks.rule import Rule


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule, in the catalogue's order. Imports torch."""
    found = (import_module(entry.module).RULE for entry in entries())
    return tuple(rule for rule in found if isinstance(rule, Rule))
