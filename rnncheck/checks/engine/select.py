"""Which rules a run asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rnncheck.checks.catalogue import match
from rnncheck.checks.engine.registry import rules
from rnncheck.checks.rule import Rule
from rnncheck.results.model import Stage


def select_rules(
    select: Sequence[str] = (), ignore: Sequence[str] = (), stages: Collection[Stage] = ()
) -> tuple[Rule, ...]:
    """Rules whose code begins with one of ``select`` (all, if empty), without ``ignore``, of the given stages.

    Raises UserError for a prefix that names no rule.
    """
    chosen = {entry.code for entry in match(select)} if select else {rule.code for rule in rules()}
    dropped = {entry.code for entry in match(ignore)} if ignore else set[str]()
    return tuple(
        rule
        for rule in rules()
        if rule.code in chosen - dropped and (not stages or rule.stage in stages)
    )
