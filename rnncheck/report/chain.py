"""The pipeline as a chain of stages, each green, red or grey, by a sign and a word as well."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rnncheck.report import text
from rnncheck.results.families import prefix_of
from rnncheck.results.model import CheckResult, Outcome, Run, Stage, StageResult


class Light(StrEnum):
    """How a stage stands."""

    HOLDS = "holds"
    BROKEN = "broken"
    NOT_SHOWN = "not shown"
    NOT_ASKED = "not asked"


SIGNS = {Light.HOLDS: "✓", Light.BROKEN: "✗", Light.NOT_SHOWN: "?", Light.NOT_ASKED: "–"}
_ASCII = {Light.HOLDS: "+", Light.BROKEN: "x", Light.NOT_SHOWN: "?", Light.NOT_ASKED: "-"}
_NAMES = {Stage.TRAIN: "training"}
_TRAINING = "GR"  # the family that asks of the training


@dataclass(frozen=True)
class Link:
    """One stage with its light, and why."""

    name: str
    light: Light
    why: str = ""

    @property
    def sign(self) -> str:
        """The light as a sign."""
        return SIGNS[self.light]


def chain_of(run: Run) -> list[Link]:
    """The stages in their order, the training last, which a script begins with; none where no check
    was asked and none raised."""
    raised = any(one.outcome is Outcome.ERROR for one in run.stages)
    stages = {one.stage: one for one in run.stages} if run.checks or raised else {}
    order = [*(one for one in stages if one is not Stage.TRAIN), *([Stage.TRAIN] if stages else [])]
    return [_link(run, stage, stages.get(stage)) for stage in order]


def chain_line(run: Run, *, ascii_alone: bool = False) -> str:
    """``env + > policy + > collect x``."""
    signs = _ASCII if ascii_alone else SIGNS
    arrow = " > " if ascii_alone else " → "
    return arrow.join(f"{one.name} {signs[one.light]}" for one in chain_of(run))


def _link(run: Run, stage: Stage, built: StageResult | None) -> Link:
    name = _NAMES.get(stage, str(stage))
    if built is not None and built.outcome is Outcome.ERROR:
        return Link(name, Light.BROKEN, text.clean(built.detail.partition("\n")[0]))
    checks = _checks(run, stage)
    if failing := [one.code for one in checks if one.fails(strict=run.strict)]:
        return Link(name, Light.BROKEN, text.clean(", ".join(failing)))
    if built is not None and built.outcome in text.UNANSWERED:
        absent = built.outcome in (Outcome.NOT_APPLICABLE, Outcome.SKIPPED)
        return Link(name, Light.NOT_ASKED if absent else Light.NOT_SHOWN, text.clean(built.detail))
    if open_ := [one.code for one in checks if one.outcome in _OPEN]:
        return Link(name, Light.NOT_SHOWN, text.clean(", ".join(open_)))
    if passed := sum(one.outcome is Outcome.PASSED for one in checks):
        return Link(name, Light.HOLDS, f"{passed} {'check' if passed == 1 else 'checks'}")
    return Link(name, Light.NOT_ASKED, "no check looked at it")


_OPEN = (Outcome.NOT_LOOKED, Outcome.ERROR, Outcome.DEFERRED, Outcome.VACUOUS)


def _checks(run: Run, stage: Stage) -> list[CheckResult]:
    """The checks of a stage, and those that found something there."""
    return [one for one in run.checks if stage in _stages_of(one)]


def _stages_of(check: CheckResult) -> set[Stage]:
    """Where a check looked; what is asked of gradients and updates is the training."""
    if prefix_of(check.code) == _TRAINING:
        return {Stage.TRAIN}
    return {one.stage for one in check.findings} or {check.stage}
