"""The one stream that a run emits; progress, JSONL and the Run's collector all listen to it."""

from __future__ import annotations

from dataclasses import dataclass

from rnncheck.results.model import CheckResult, Environment, Run, SpecRef, Stage, StageResult, Tool


@dataclass(frozen=True)
class RunStarted:
    """First event: what is about to run; ``checks`` are the selected codes."""

    tool: Tool
    command: str
    spec: SpecRef
    environment: Environment
    seed: int
    started: str
    checks: tuple[str, ...]
    strict: bool = False


@dataclass(frozen=True)
class StageStarted:
    """A stage of the pipeline begins to build or run."""

    stage: Stage


@dataclass(frozen=True)
class StageFinished:
    """A stage ended."""

    result: StageResult


@dataclass(frozen=True)
class CheckStarted:
    """A check begins."""

    code: str
    name: str
    stage: Stage


@dataclass(frozen=True)
class CheckFinished:
    """A check ended."""

    result: CheckResult


@dataclass(frozen=True)
class Notice:
    """Something the user should know that is no check's finding."""

    text: str


@dataclass(frozen=True)
class RunFinished:
    """Last event, also after an interruption: the whole run."""

    run: Run


Event = (
    RunStarted | StageStarted | StageFinished | CheckStarted | CheckFinished | Notice | RunFinished
)
