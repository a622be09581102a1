"""A whole verification as a stream of events: build the stages, ask the rules, close everything."""

from __future__ import annotations

import datetime
from collections.abc import Generator, Iterator, Sequence

from rnncheck import __version__
from rnncheck.checks.engine.accept import Acceptances
from rnncheck.checks.engine.run import run_rules, skip_rules
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Rule
from rnncheck.errors import VersionError
from rnncheck.pipeline.backends.asked import check_asked
from rnncheck.pipeline.backends.precision import settings_kept
from rnncheck.pipeline.build.builder import Builder
from rnncheck.pipeline.guard.process import calm
from rnncheck.pipeline.model import Pipeline
from rnncheck.results.environment import current_environment
from rnncheck.results.events import Event, Notice, RunStarted, StageFinished, StageStarted
from rnncheck.results.model import Outcome, SpecRef, StageResult, Tool
from rnncheck.spec.model import Spec


def verify_events(
    spec: Spec,
    rules: Sequence[Rule],
    *,
    command: str = "verify",
    thorough: bool = False,
    strict: bool = False,
    accepting: Acceptances | None = None,
) -> Generator[Event, None, None]:
    """Everything that happens while ``spec`` is verified with ``rules``.

    Who brings ``accepting`` tells itself what is left of the acceptances. Raises UserError where the spec or a factory
    is at fault. Closing the generator closes the pipeline.
    """
    check_asked(spec)
    accepted = accepting or Acceptances(spec)
    begin = started(spec, rules, command, strict=strict)
    with calm(), settings_kept(), Builder(spec) as builder:
        yield begin
        lacking = yield from build(builder)
        for text in builder.notices:
            yield Notice(text)
        if builder.pipeline is not None:
            yield from map(accepted.heard, ask(builder.pipeline, rules, thorough=thorough))
        elif lacking:
            yield from map(accepted.heard, skip_rules(rules, lacking))
    if accepting is None:
        for left in accepted.leftovers():
            yield Notice(f"{left.place}: the {left.name} {left.problem}")


def started(spec: Spec, rules: Sequence[Rule], command: str, *, strict: bool) -> RunStarted:
    """The first event."""
    return RunStarted(
        tool=Tool("rnncheck", __version__),
        command=command,
        spec=SpecRef(spec.path, spec.name, spec.hash),
        environment=current_environment(spec.device),
        seed=spec.seed,
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        checks=tuple(rule.code for rule in rules),
        strict=strict,
    )


def build(builder: Builder) -> Generator[Event, None, str]:
    """Build and run the stages. Returns why nothing can be verified where the installed TorchRL is too old."""
    for stage in builder.stages:
        yield StageStarted(stage)
        try:
            yield StageFinished(builder.run(stage))
        except VersionError as error:
            yield StageFinished(StageResult(stage, Outcome.SKIPPED, error.reason))
            return error.reason
    return ""


def ask(pipeline: Pipeline, rules: Sequence[Rule], *, thorough: bool) -> Iterator[Event]:
    """Run the rules over one pipeline."""
    evidence = Evidence(pipeline, thorough=thorough)
    try:
        yield from run_rules(rules, evidence)
        for text in evidence.remarks:
            yield Notice(text)
    finally:
        evidence.close()
