"""Which of the failed checks name a fault, and which only tell of it.

A failed check that another one explains is folded under it. What explains what is the table in
``effects``; that a follower is gone once its cause is repaired says more than the table does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rnncheck.results.effects import effects_of
from rnncheck.results.families import FAMILIES, prefix_of
from rnncheck.results.model import Basis, Cause, CheckResult, Follower, Outcome, Run

_ORDER = [family.prefix for family in FAMILIES]


def judge_causes(checks: Iterable[CheckResult], *, strict: bool) -> tuple[Cause, ...]:
    """The failed checks, grouped: each that no other explains, with those that it explains.

    What fails the run comes before what does not, and is never folded under it: a warning is no
    reason for the exit code. A follower is told once: with a cause of its own family, else with the
    first that explains it.
    """
    weighs = weighed(checks, strict=strict)
    return _grouped(_in_order(weighs, weighs), weighs)


def causes_of(run: Run) -> tuple[Cause, ...]:
    """What failed in ``run``, grouped, also where an older rnncheck stored it."""
    return run.causes or judge_causes(run.checks, strict=run.strict)


def weighed(checks: Iterable[CheckResult], *, strict: bool) -> dict[str, bool]:
    """The failed checks that are not accepted, and whether each fails the run."""
    failed = [one for one in checks if one.outcome is Outcome.FAILED and not one.accepted]
    return {one.code: one.fails(strict=strict) for one in failed}


def settle(
    causes: Sequence[Cause],
    repaired: Cause,
    how: str,
    after: Mapping[str, Outcome],
    weighs: Mapping[str, bool],
) -> tuple[Cause, ...]:
    """``causes`` once ``repaired`` passes with the repair ``how``; ``after`` is how its followers
    ended then.

    Those that passed are proved to follow. Those that still fail do not: another cause explains
    them, or they are causes of their own.
    """
    left = {one.code for one in repaired.followers if after.get(one.code) is Outcome.FAILED}
    kept = tuple(
        Follower(one.code, Basis.TESTED if after.get(one.code) is Outcome.PASSED else one.basis)
        for one in repaired.followers
        if one.code not in left
    )
    done = [one for one in causes if one.proved and one is not repaired]
    open_ = [one for one in causes if not one.proved and one is not repaired]
    left |= {code for one in open_ for code in (one.code, *(f.code for f in one.followers))}
    found = [
        replace(repaired, followers=kept, proved=how),
        *done,
        *_grouped(_in_order(left, weighs), weighs),
    ]
    order = _in_order([one.code for one in found], weighs)
    return tuple(sorted(found, key=lambda one: order.index(one.code)))


def _grouped(codes: Sequence[str], weighs: Mapping[str, bool]) -> tuple[Cause, ...]:
    """The causes among ``codes``, in their order."""
    explains = {root: _explained(root, codes, weighs) for root in codes}
    follow = {code for found in explains.values() for code in found}
    roots = [root for root in codes if root not in follow]
    nearest = {code: _nearest(code, roots, explains) for code in follow}
    return tuple(
        Cause(
            root,
            tuple(Follower(c, Basis.ASSUMED) for c in explains[root] if nearest[c] == root),
        )
        for root in roots
    )


def _nearest(code: str, roots: Sequence[str], explains: Mapping[str, Sequence[str]]) -> str:
    """The cause that a follower is told with: one of its own family, else the first."""
    explain = [root for root in roots if code in explains[root]]
    family = [root for root in explain if prefix_of(root) == prefix_of(code)]
    return [*family, *explain][0]


def _explained(root: str, codes: Sequence[str], weighs: Mapping[str, bool]) -> list[str]:
    """What follows over checks that failed as well: an effect of what holds is none."""
    effects = effects_of(root, frozenset(codes))
    return [code for code in codes if code in effects and (weighs[root] or not weighs[code])]


def _in_order(codes: Iterable[str], weighs: Mapping[str, bool]) -> list[str]:
    """What weighs first, then by family in the order in which data runs through them; other
    checks last."""

    def place(code: str) -> tuple[bool, int, str]:
        prefix = prefix_of(code)
        family = _ORDER.index(prefix) if prefix in _ORDER else len(_ORDER)
        return (not weighs[code], family, code)

    return sorted(codes, key=place)
