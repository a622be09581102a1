"""One pipeline and the checks that are asked of it: the one way in which every command runs them.

with Verification(spec) as verification:
    for event in verification.build(): ...
    for event in verification.ask(rules): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType

from rnncheck.checks.engine import registry
from rnncheck.checks.engine.accept import Acceptances
from rnncheck.checks.engine.haste import TimeBox
from rnncheck.checks.engine.run import Inquiry, unasked_rules
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Rule
from rnncheck.errors import Lacking, StageError
from rnncheck.pipeline.assembly.builder import Builder
from rnncheck.pipeline.backends.asked import check_asked
from rnncheck.pipeline.backends.precision import settings_kept
from rnncheck.pipeline.backends.scan_traces import scan_traces_kept
from rnncheck.pipeline.guard.default_device import own_tensors_on_cpu
from rnncheck.pipeline.guard.process import absence_known, calm, keeping_randomness
from rnncheck.pipeline.model import Pipeline
from rnncheck.pipeline.plant.hooks import Plant
from rnncheck.results.events import CheckFinished, Event, Notice, StageFinished, StageStarted
from rnncheck.results.model import CheckResult, Outcome, Stage, StageResult
from rnncheck.spec.model import Spec


class Verification:
    """Inside the context the pipeline of ``spec`` lives; the process's settings and random numbers
    end with it.

    ``plant`` changes the parts before anything runs. ``seconds`` are for all checks together.
    ``lacking`` says why nothing can be verified where the installed TorchRL is too old for env,
    policy or critic, or this processor has no kernel for them. Every step may raise a UserError
    where the spec or a factory is at fault. The user's prints go to standard error, and warnings
    are kept down, only while a step is under way.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        thorough: bool = False,
        accepting: Acceptances | None = None,
        plant: Plant | None = None,
        seconds: float | None = None,
    ) -> None:
        check_asked(spec)
        self.spec = spec
        self.accepting = accepting or Acceptances(spec)
        self.lacking = ""
        self._thorough, self._plant = thorough, plant
        self._clock = TimeBox(seconds)
        self._inquiry: Inquiry | None = None
        self._scope = ExitStack()

    def __enter__(self) -> Verification:
        with ExitStack() as scope:  # what is open already is closed where the next raises
            scope.enter_context(keeping_randomness())
            scope.enter_context(own_tensors_on_cpu())
            scope.enter_context(settings_kept())
            scope.enter_context(scan_traces_kept())
            with calm():
                self._builder = Builder(self.spec, self._plant)
            scope.push(self._end)
            self._scope = scope.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._scope.__exit__(kind, error, trace)

    def _end(self, kind: type[BaseException] | None, *_: object) -> None:
        with calm(), ExitStack() as closing:
            closing.callback(self._builder.close, forced=kind is not None)
            if self._inquiry is not None:
                self._inquiry.evidence.close()

    @property
    def failures(self) -> dict[Stage, StageError]:
        """What the stages raised."""
        return self._builder.failures

    @property
    def pipeline(self) -> Pipeline | None:
        """What is built so far."""
        return self._builder.pipeline

    @property
    def runs(self) -> bool:
        """Whether there is a pipeline to ask about."""
        return self._builder.pipeline is not None

    def build(self) -> Iterator[Event]:
        """Build and run the stages, up to one without which nothing can be verified here."""
        with calm():
            for stage in self._builder.stages:
                yield StageStarted(stage)
                yield StageFinished(self._built(stage))
                if self.lacking:
                    break
            yield from map(Notice, self._builder.notices)

    def _built(self, stage: Stage) -> StageResult:
        try:
            return self._builder.run(stage)
        except Lacking as error:
            self.lacking = error.reason
            return StageResult(stage, Outcome.NOT_LOOKED, error.reason)

    def ask(self, rules: Iterable[Rule]) -> Iterator[Event]:
        """Events of the rules in order, known findings marked as accepted, and what the user should
        read besides."""
        with calm(), absence_known():
            for event in self._asked(rules):
                yield self.accepting.heard(event)
            if self._inquiry is not None:
                yield from map(Notice, self._inquiry.evidence.remarks)

    def illustrated(self, draw: Callable[[Evidence], Iterator[Event]]) -> Iterator[Event]:
        """What ``draw`` tells of the evidence; nothing where there is no pipeline."""
        with calm(), absence_known():
            if (inquiry := self._opened()) is not None:
                yield from draw(inquiry.evidence)

    def _asked(self, rules: Iterable[Rule]) -> Iterator[Event]:
        if (inquiry := self._opened()) is not None:
            return inquiry.ask(rules)
        return unasked_rules(rules, self.lacking) if self.lacking else iter(())

    def expect(self, rules: Iterable[Rule]) -> None:
        """Say which rules belong to the run, where they are asked one by one."""
        if (inquiry := self._opened()) is not None:
            inquiry.expect(rules)

    def asked(self, rule: Rule) -> CheckResult:
        """What one rule concludes."""
        (result,) = (one.result for one in self.ask([rule]) if isinstance(one, CheckFinished))
        return result

    def _opened(self) -> Inquiry | None:
        """Who asks the rules; None where there is no pipeline."""
        if self._inquiry is None and self._builder.pipeline is not None:
            rules = registry.rules()
            self._inquiry = Inquiry(
                self._builder.pipeline, rules, thorough=self._thorough, clock=self._clock
            )
        return self._inquiry
