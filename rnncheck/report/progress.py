"""What a run is doing, while it does it."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from rnncheck.report import text
from rnncheck.report.gate import item_sentence
from rnncheck.report.sweep import texts_of
from rnncheck.results.endings import broke_off
from rnncheck.results.events import (
    CellFinished,
    CheckFinished,
    CheckStarted,
    Drawing,
    Event,
    GateDecided,
    GateProgress,
    MemoryProgress,
    Notice,
    Reducing,
    Repairing,
    RunStarted,
    StageFinished,
    StageStarted,
    SweepProgress,
)
from rnncheck.results.model import NOT_IN_SPEC, CheckResult, Outcome, Stage, StageResult


class ConsoleProgress:
    """Listens to events. On a terminal one line that is rewritten, elsewhere plain lines; nothing
    with ``quiet``.

    The line is drawn when an event comes and at every ``tick``, by no thread: the user's pipeline
    may fork while it is shown.
    """

    def __init__(self, console: Console, quiet: bool = False, verbose: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._verbose = verbose
        self._live: Live | None = None
        self._sentence, self._since = "", 0.0  # what runs, and from when on
        self._drawn = 0
        self._total = 0
        self._done = 0
        self._failed = 0

    def __enter__(self) -> Self:
        draws = self._console.file.isatty() and not self._console.is_dumb_terminal
        if draws and not self._quiet:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if not self._quiet:
            self._console.print()  # the report follows

    def __call__(self, event: Event) -> None:
        if self._quiet:
            return
        match event:
            case RunStarted():
                self._total = len(event.checks)
            case StageStarted() if event.stage is not Stage.TRAIN:  # a script prints for itself
                self._now(f"{event.stage} ...")
            case StageFinished():
                self._sentence = ""
                self._line(_stage(event.result))
            case CheckStarted():
                self._now(f"{self._count()} {event.code} {event.name} ...")
            case CheckFinished():
                self._finished(event.result)
            case Repairing() | Reducing() | Drawing():
                self._now(f"{event.doing} ...")
            case GateProgress() | MemoryProgress():
                self._now(event.doing)
            case GateDecided():
                self._line(f"{text.word(event.item)}: {item_sentence(event.item)}")
            case SweepProgress():
                self._now(
                    f"cells {event.done}/{event.total}, about {event.remaining:.0f} s left:"
                    f" {event.doing}"
                )
            case CellFinished():
                self._line(
                    " | ".join(filter(None, [event.result.cell.group, *texts_of(event.result)[:4]]))
                )
            case Notice():
                self._line(f"note: {event.text}")

    def _finished(self, check: CheckResult) -> None:
        self._sentence = ""
        self._done += 1
        self._failed += check.outcome is Outcome.FAILED
        loud = check.outcome in (Outcome.FAILED, Outcome.ERROR)
        if self._live is None and (loud or self._verbose):
            self._line(f"{check.outcome}: {check.code} {check.name}")

    def _count(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return f"checks {self._done}/{self._total}{failed}:"

    def _now(self, sentence: str) -> None:
        """Show what runs from this moment on, on a terminal only."""
        self._sentence, self._since, self._drawn = sentence, time.monotonic(), 0
        self._draw(sentence)

    def tick(self) -> None:
        """Show how long it has been running, each full second anew."""
        seconds = int(time.monotonic() - self._since)
        if self._sentence and seconds > self._drawn:
            self._drawn = seconds
            self._draw(f"{self._sentence} {seconds} s")

    def _draw(self, sentence: str) -> None:
        if self._live is not None:
            line = Text(text.clean(sentence), style="dim", no_wrap=True, overflow="ellipsis")
            self._live.update(line, refresh=True)

    def _line(self, sentence: str) -> None:
        """A line that stays."""
        self._console.print(Text(text.clean(sentence), style="dim"))


def _stage(result: StageResult) -> str:
    words = {
        Outcome.PASSED: f"{result.detail or 'ok'} ({result.seconds:.1f} s)",
        Outcome.NOT_APPLICABLE: result.detail or NOT_IN_SPEC,
        Outcome.NOT_LOOKED: result.detail,
        Outcome.SKIPPED: result.detail or NOT_IN_SPEC,
        Outcome.VACUOUS: result.detail,
        Outcome.ERROR: result.detail if broke_off(result.detail) else f"raised: {result.detail}",
    }
    return f"{result.stage + ':':<11}{words.get(result.outcome, str(result.outcome))}"
