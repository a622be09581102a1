"""One JSON object per event and line: live while a run goes, or made again from a stored run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from rnncheck.printable import json_text
from rnncheck.report.sweep import results_of
from rnncheck.results.encode import event_to_json
from rnncheck.results.events import (
    CausesFound,
    CellFinished,
    CheckFinished,
    Claimed,
    Event,
    GateDecided,
    GuaranteeJudged,
    Notice,
    Recommended,
    RunFinished,
    RunStarted,
    Scaled,
    StageFinished,
)
from rnncheck.results.model import Run


class JsonlWriter:
    """Listens to events and writes each as a line at once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        self._stream.write(line(event))
        self._stream.flush()


def render(run: Run) -> str:
    """The run's events; what happened when is not stored, so there are no times
    and no ``*-started`` lines of stages and checks."""
    return "".join(line(event) for event in _events(run))


def line(event: Event) -> str:
    """The event as one line."""
    return json_text(event_to_json(event)) + "\n"


def _events(run: Run) -> Iterator[Event]:
    codes = tuple(check.code for check in run.checks)
    yield RunStarted(
        run.tool, run.command, run.spec, run.environment, run.seed, run.started, codes,
        run.strict, run.rules, at=None,
    )  # fmt: skip
    yield from (StageFinished(stage, at=None) for stage in run.stages)
    yield from (CheckFinished(check, at=None) for check in run.checks)
    yield from (GuaranteeJudged(one, at=None) for one in run.guarantees)
    yield from [CausesFound(run.causes, at=None)] if run.causes else []
    yield from (CellFinished(result, at=None) for result in results_of(run))
    yield from (Recommended(found, at=None) for found in run.recommendations)
    yield from (Scaled(found, at=None) for found in run.scalings)
    yield from (Claimed(claim, at=None) for claim in run.claims)
    yield from (GateDecided(item, at=None) for item in run.gate)
    yield from (Notice(text, at=None) for text in run.notices)
    yield RunFinished(run, at=None)
