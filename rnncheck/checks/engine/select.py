"""Which rules a run asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rnncheck.checks.catalogue import Entry
from rnncheck.checks.engine.own_checks import catalogue_of
from rnncheck.checks.engine.registry import rules_of
from rnncheck.checks.rule import Rule
from rnncheck.results.model import Stage
from rnncheck.spec.model import Spec


def select_rules(
    spec: Spec,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    stages: Collection[Stage] = (),
) -> tuple[Rule, ...]:
    """The rules of ``select_entries``. Imports torch and the modules that ``spec`` names as
    ``checks``."""
    return rules_of(select_entries(spec, select, ignore, stages), spec)


def select_entries(
    spec: Spec,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    stages: Collection[Stage] = (),
) -> tuple[Entry, ...]:
    """Checks whose code begins with one of ``select`` (all, if empty), without ``ignore``, of the
    given stages.

    Raises UserError for a prefix that names no check, and for checks of the user's that cannot be
    read.
    """
    catalogue = catalogue_of(spec)
    chosen = catalogue.match(select) if select else catalogue.entries
    dropped = catalogue.match(ignore) if ignore else ()
    return tuple(
        one for one in chosen if one not in dropped and (not stages or one.stage in stages)
    )
