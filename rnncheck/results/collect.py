"""From the stream of events to the Run, at any moment."""

from __future__ import annotations

from datetime import UTC, datetime

from rnncheck import __version__
from rnncheck.results.environment import current_environment
from rnncheck.results.events import (
    CheckFinished,
    CheckStarted,
    Event,
    Notice,
    RunStarted,
    StageFinished,
    StageStarted,
)
from rnncheck.results.model import CheckResult, Run, SpecRef, StageResult, Tool
from rnncheck.results.verdict import judge


class RunCollector:
    """Listens to the events of a run and keeps what they say.

    ``finish`` may be called after any event, or before the first: Ctrl-C leaves a Run with what was found so far.
    """

    def __init__(self) -> None:
        self._started: RunStarted | None = None
        self._stages: list[StageResult] = []
        self._checks: list[CheckResult] = []
        self._notices: list[str] = []
        self._open = ""  # what is running now, in words

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._started = event
            case StageStarted():
                self._open = f"stage {event.stage}"
            case CheckStarted():
                self._open = f"{event.code} {event.name}"
            case StageFinished():
                self._stages.append(event.result)
                self._open = ""
            case CheckFinished():
                self._checks.append(event.result)
                self._open = ""
            case Notice():
                self._notices.append(event.text)

    def finish(self, interrupted: bool, seconds: float) -> Run:
        """The run so far, judged."""
        start = self._started or _unstarted()
        verdict, code = judge(
            self._checks, strict=start.strict, interrupted=interrupted, stages=self._stages
        )
        last_words = self._interruption(start) if interrupted else []
        return Run(
            tool=start.tool,
            command=start.command,
            spec=start.spec,
            environment=start.environment,
            seed=start.seed,
            started=start.started,
            seconds=seconds,
            exit_code=code,
            verdict=verdict,
            stages=tuple(self._stages),
            checks=tuple(self._checks),
            notices=(*self._notices, *last_words),
            strict=start.strict,
        )

    def _interruption(self, start: RunStarted) -> list[str]:
        """What the interruption hit, and what it left undone."""
        done = {check.code for check in self._checks}
        left = [code for code in start.checks if code not in done]
        hit = f"interrupted during {self._open}" if self._open else "interrupted"
        return [f"{hit}; not run: {', '.join(left)}" if left else hit]


def _unstarted() -> RunStarted:
    """Stands in for the first event when the run was interrupted before it."""
    return RunStarted(
        tool=Tool("rnncheck", __version__),
        command="",
        spec=SpecRef("", "", ""),
        environment=current_environment(),
        seed=0,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        checks=(),
    )
