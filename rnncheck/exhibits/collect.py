"""Collecting what a report draws, once, at the end of a run.

For the finding that is the cause what costs little: the strip of its batch, who moves whom by
segment, its way. With ``whole``, for an HTML report or a notebook, what takes time as well. A
picture that cannot be had is said, and ends no run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rnncheck.checks.engine.guarded import guarded
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.exhibits.backends import errors_by_backend
from rnncheck.exhibits.influence import (
    Field,
    by_distance,
    estimator_field,
    gradient_matrix,
    loss_field,
    module_field,
    place_in,
    replaced_matrix,
    segment_map,
)
from rnncheck.exhibits.strips import CONSTRUCTED, faulty_step, strip_of
from rnncheck.exhibits.traces import errors_by_step, fading_of_zero, recorded_against_replayed
from rnncheck.exhibits.ways import way_of
from rnncheck.results.causes import judge_causes
from rnncheck.results.events import Drawing, Event, ExhibitsCollected
from rnncheck.results.exhibits import (
    BatchStrip,
    Curves,
    Exhibits,
    FaultWay,
    StepMatrix,
)
from rnncheck.results.model import CheckResult, Finding, Outcome, Stage

WHOLE = 30.0  # seconds for all that is drawn: chosen, as `verify` allows a repair
BRIEF = 2.0  # seconds where no picture was asked for: chosen, hardly felt beside the checks
EACH = 6.0  # seconds for one picture
MOST_CAUSES = 3  # causes whose batches are shown: chosen, a report with more is read one by one
OF_MODULE = ("BD301", "BD303", "BD304", "BD305")
OF_ESTIMATOR = ("VL601",)
OF_LOSS = ("LS701",)
JOINS = ("RP501", "RP502", "RP506")  # batches that join steps without a mark
_BESIDE = {  # findings that a matrix explains, beside those that judge what lies off its blocks
    "module": ("BD302", "BD306", "EQ201", "EQ204", "GR801", "GR805"),
    "estimator": ("VL604",),
    "loss": ("LS703", "LS704"),
}
_RECORDED = ("CL401", "CL402", "CL403", "CL404", "CL406", "CL408", "WR103", "WR107")
_FADING = ("CL404", "RP504", "RP505", "RP508", "LS703", "CL403", "WR105")
_DRIFT = ("PR901", "PR902", "PR903", "EQ203")
_BACKENDS = ("EQ207",)
_DISTANCE = ("GR801", "GR804", "GR805")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Illustration:
    """What to collect; ``whole`` where a report draws it."""

    whole: bool

    def __call__(self, checks: Sequence[CheckResult], evidence: Evidence) -> Iterator[Event]:
        """The events of collecting it; none where there is nothing to show."""
        causes = _cause_findings(checks)
        if not causes and not self.whole:
            return
        yield Drawing("collecting what the batches look like")
        found = Collection(evidence, checks, causes, whole=self.whole).collected()
        yield ExhibitsCollected(found)


def _cause_findings(checks: Sequence[CheckResult]) -> list[Finding]:
    """The first finding of each cause, in their order."""
    known = {one.code: one for one in checks}
    causes = [known[one.code] for one in judge_causes(checks, strict=False)]
    return [one.findings[0] for one in causes if one.findings][:MOST_CAUSES]


@dataclass
class Collection:
    """The exhibits of one run, one after the other, as long as there is time."""

    evidence: Evidence
    checks: Sequence[CheckResult]
    causes: Sequence[Finding]
    whole: bool
    untold: list[str] = field(default_factory=list)
    _until: float = 0.0

    def collected(self) -> Exhibits:
        """All of it."""
        self._until = time.perf_counter() + (WHOLE if self.whole else BRIEF)
        strips, ways = self._strips(), self._ways()
        matrices = [*self._leaks(), *(self._matrices() if self.whole else ())]
        curves = self._curves(matrices) if self.whole else []
        return Exhibits(
            tuple(strips), tuple(matrices), tuple(curves), tuple(ways), tuple(self.untold),
            self.whole,
        )  # fmt: skip

    def _of(self, finding: Finding | None) -> Evidence:
        """What was found of one of several losses is shown of that one."""
        name = "" if finding is None else finding.details.get("loss", "")
        others = (one for one in self.evidence.others if one.pipeline.of_loss == name)
        return next(others, self.evidence) if name else self.evidence

    def _had(self, what: str, make: Callable[[], _T]) -> list[_T]:
        """What ``make`` gives; nothing where it cannot, which is noted where a report draws."""
        left = self._until - time.perf_counter()
        if left <= 0:
            self._note(f"{what}: no time is left for it")
            return []
        found, why = guarded(what, min(left, EACH if self.whole else BRIEF), make)
        self._note(why)
        return [] if found is None else [found]

    def _note(self, why: str) -> None:
        if why and self.whole:
            self.untold.append(why)

    def _strips(self) -> list[BatchStrip]:
        asked: Sequence[Finding | None] = self.causes or [None]
        found = list[BatchStrip]()
        for one in asked[: MOST_CAUSES if self.whole else 1]:
            name = f"the batch of {one.code}" if one is not None else "the batch"
            found += self._had(name, lambda one=one: strip_of(self._of(one), one, whole=self.whole))  # type: ignore[misc]
        return found

    def _ways(self) -> list[FaultWay]:
        found = list[FaultWay | None]()
        for one in self.causes[: MOST_CAUSES if self.whole else 1]:
            found += self._had(f"the way of {one.code}", lambda one=one: way_of(self._of(one), one))  # type: ignore[misc]
        return [one for one in found if one is not None]

    def _leaks(self) -> Iterator[StepMatrix]:
        """Who moves whom by segment, for the causes that say that somebody does."""
        for one in self.causes[: MOST_CAUSES if self.whole else 1]:
            if one.code in (*OF_MODULE, *OF_ESTIMATOR, *OF_LOSS):
                for found in self._had(f"segments of {one.code}", lambda one=one: self._map(one)):  # type: ignore[misc]
                    yield self._judged(found, one)

    def _map(self, finding: Finding) -> StepMatrix:
        asked = self._field(finding)
        return segment_map(asked, finding.key, self._at(asked, finding))

    def _field(self, finding: Finding) -> Field:
        number = _number(finding)
        if finding.code in OF_LOSS:
            return loss_field(self._of(finding), number)
        if finding.code in OF_ESTIMATOR:
            return estimator_field(self._of(finding), number)
        critic = self.evidence.critic if finding.stage is Stage.CRITIC else None
        return module_field(self.evidence, critic or self.evidence.policy, heads=True)

    def _at(self, asked: Field, finding: Finding | None) -> tuple[int, int] | None:
        if finding is None or (where := finding.where) is None or not where.batch:
            return None
        step = faulty_step(where, finding.code, rows=asked.valid.shape[0])
        return place_in(asked, where.batch[-1], step)

    def _matrices(self) -> Iterator[StepMatrix]:
        """Step on step, of the module, the estimator and the loss."""
        yield from self._of_module()
        for name, codes, make in (
            ("estimator", OF_ESTIMATOR, estimator_field),
            ("loss", OF_LOSS, loss_field),
        ):
            if not self._present(name):
                continue
            finding = self._finding(codes)
            number, of = 0 if finding is None else _number(finding), self._of(finding)
            for asked in self._had(f"the {name}", lambda m=make, n=number, e=of: m(e, n)):  # type: ignore[misc]
                at, key = self._at(asked, finding), "" if finding is None else finding.key
                for found in self._had(
                    f"influence of step on step, {name}",
                    lambda f=asked, k=key, a=at: replaced_matrix(f, k, a, EACH / 2),  # type: ignore[misc]
                ):
                    yield self._judged(found, finding)

    def _of_module(self) -> Iterator[StepMatrix]:
        finding = self._finding((*OF_MODULE, *_BESIDE["module"]))
        heads = (finding is not None and finding.code[:2] in CONSTRUCTED) or not self._sampled()
        critic = self.evidence.critic if finding and finding.stage is Stage.CRITIC else None
        subject = critic or self.evidence.policy

        def by_gradient() -> StepMatrix:
            asked = module_field(self.evidence, subject, heads=heads)
            at = self._at(asked, finding) if heads else None
            return gradient_matrix(self.evidence, subject, at, EACH / 2, heads=heads)

        def by_replacing() -> StepMatrix:
            asked = module_field(self.evidence, subject, heads=heads)
            return replaced_matrix(asked, "", self._at(asked, finding) if heads else None, EACH / 2)

        what = "influence of step on step, module"
        noted = len(self.untold)
        found = self._had(what, by_gradient)
        if not found and (found := self._had(what, by_replacing)):
            del self.untold[noted:]
        yield from (self._judged(one, finding) for one in found)

    def _judged(self, matrix: StepMatrix, finding: Finding | None) -> StepMatrix:
        kind = matrix.of if matrix.of in _BESIDE else "module"
        codes = {"loss": OF_LOSS, "estimator": OF_ESTIMATOR}.get(kind, OF_MODULE)
        joins = self._failing(JOINS)
        ended = {one.code: one.outcome for one in self.checks if one.code in codes}
        looked = (Outcome.PASSED, Outcome.FAILED)
        judged = tuple(code for code, how in ended.items() if how in looked)
        beside = joins or (*codes, *_BESIDE[kind])
        return replace(
            matrix,
            judged_by=joins or judged,
            broken=bool(joins) or Outcome.FAILED in ended.values(),
            explains=(finding.code,) if finding is not None else beside,
        )

    def _curves(self, matrices: Sequence[StepMatrix]) -> list[Curves]:
        found = list[Curves]()
        if codes := self._failing(_RECORDED):
            for both in self._had(
                "recorded against replayed", lambda: recorded_against_replayed(self.evidence)
            ):
                found += [replace(one, explains=codes) for one in both]
        if codes := self._failing(_FADING):
            for one in self._had("fading of a wrong state", lambda: fading_of_zero(self.evidence)):
                found.append(replace(one, explains=codes))
        if codes := self._failing(_DRIFT):
            for group in self._had("error against step", lambda: errors_by_step(self.evidence)):
                found += [replace(one, explains=codes) for one in group]
        if self._failing(_BACKENDS):
            for group in self._had("error by backend", lambda: errors_by_backend(self.evidence)):
                found += [replace(one, explains=_BACKENDS) for one in group]
        module = next((m for m in matrices if not m.by_segment and m.causal), None)
        if module is not None and "gradient" in module.unit:
            found.append(self._by_distance(module))
        return found

    def _by_distance(self, matrix: StepMatrix) -> Curves:
        return Curves(
            of=f"gradient against distance, {matrix.of}",
            over="steps back",
            unit="mean norm of the gradient",
            lines=(by_distance(matrix),),
            logarithmic=True,
            explains=_DISTANCE,
        )

    def _finding(self, codes: Sequence[str]) -> Finding | None:
        failed = (one for one in self.checks if one.outcome is Outcome.FAILED)
        return next((f for one in failed if one.code in codes for f in one.findings), None)

    def _failing(self, codes: Sequence[str]) -> tuple[str, ...]:
        failed = {one.code for one in self.checks if one.outcome is Outcome.FAILED}
        return tuple(code for code in codes if code in failed)

    def _present(self, name: str) -> bool:
        pipeline = self.evidence.pipeline
        return (pipeline.loss if name == "loss" else pipeline.estimator) is not None

    def _sampled(self) -> bool:
        return bool(self.evidence.pipeline.samples)


def _number(finding: Finding) -> int:
    where = finding.where
    return where.batch[0] if where is not None and len(where.batch) == 2 else 0
