"""Rules, imported from the files that a catalogue lists."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module

from rnncheck.checks.catalogue import Entry, entries
from rnncheck.checks.rule import Rule
from rnncheck.errors import Place, UserError
from rnncheck.pipeline.assembly.factories import importable
from rnncheck.pipeline.guard.user_frames import describe_trouble
from rnncheck.spec.model import Spec


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule of rnncheck itself, in the catalogue's order."""
    return tuple(import_module(entry.module).RULE for entry in entries())


def rules_of(chosen: Iterable[Entry], spec: Spec) -> tuple[Rule, ...]:
    """The rules of these entries. Raises UserError where a module of the user's cannot be
    imported."""
    known = {rule.code: rule for rule in rules()}
    with importable(spec.folder):
        return tuple(known.get(entry.code) or _own(entry) for entry in chosen)


def _own(entry: Entry) -> Rule:
    try:
        rule = import_module(entry.module).RULE
    except Exception as error:  # the user's module may raise anything
        trouble = describe_trouble(error)
        place = trouble.place or Place(str(entry.file))
        raise UserError(
            f"the check {entry.code} cannot be imported: {trouble.message}", place=place
        ) from error
    if not isinstance(rule, Rule) or rule.code != entry.code:
        kind = type(rule).__name__
        raise UserError(
            f"the check {entry.code}: RULE is of type {kind}",
            place=Place(str(entry.file)),
            accepted="RULE = rnncheck.checks.Rule(code=..., name=..., ...)",
        )
    return rule
