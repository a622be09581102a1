"""Guarantees of two runs: what was shown before and no longer is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rnncheck.printable import counted
from rnncheck.results.gate import Ruling
from rnncheck.results.guarantees import judge_guarantees
from rnncheck.results.model import GuaranteeResult, Run, Standing


@dataclass(frozen=True)
class Held:
    """What became of one guarantee, or of all that are as they were."""

    name: str
    ruling: Ruling
    reason: str


def guarantees_of(run: Run) -> Sequence[GuaranteeResult]:
    """Those of a stored run; for one of format 1, which knew none, as its checks show them."""
    if run.guarantees or not run.checks:
        return run.guarantees
    return judge_guarantees(run.checks, run.stages, strict=run.strict)


def held_guarantees(
    before: Sequence[GuaranteeResult], now: Sequence[GuaranteeResult], *, partly: bool
) -> Iterator[Held]:
    """What became of each guarantee of ``before``; ``partly``: not all checks were asked now."""
    present = {one.name: one for one in now}
    same = 0
    for old in before:
        new = present.get(old.name)
        standing = Standing.NOT_ASKED if new is None else new.standing
        if old.standing is Standing.SHOWN and standing is Standing.SHOWN:
            same += 1
        elif standing is not old.standing:
            yield _changed(old, standing, new, partly)
    if same:
        name = counted(same, "guarantee")
        yield Held(name, Ruling.PASSED, "shown there and shown here")


def _changed(
    old: GuaranteeResult, standing: Standing, new: GuaranteeResult | None, partly: bool
) -> Held:
    name = f"guarantee {old.name}"
    because = f", because {new.because}" if new is not None and new.because else ""
    told = f"{old.standing} there, {standing} here{because}".replace("not-", "not ")
    if old.standing is not Standing.SHOWN or standing is Standing.SHOWN:
        broken = standing is Standing.BROKEN
        return Held(name, Ruling.FAILED if broken else Ruling.NOTED, told)
    if new is not None and new.accepted:
        return Held(name, Ruling.NOTED, f"{told}; accepted: {new.accepted}")
    if standing is Standing.NOT_ASKED and partly:
        return Held(name, Ruling.NOTED, f"{told}, by the command line")
    return Held(name, Ruling.FAILED, told)
