"""The one stream that a run emits; progress, JSONL and the Run's collector all listen to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from rnncheck.results.cells import Cell, CellResult
from rnncheck.results.claims import Claim
from rnncheck.results.exhibits import Exhibits
from rnncheck.results.gate import GateItem
from rnncheck.results.memory import MemoryResult
from rnncheck.results.model import (
    Cause,
    CheckResult,
    Environment,
    GuaranteeResult,
    RuleInfo,
    Run,
    SpecRef,
    Stage,
    StageResult,
    Tool,
)
from rnncheck.results.patch import Patch
from rnncheck.results.recommendation import Recommendation
from rnncheck.results.scaling import Scaling


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Timed:
    """When an event happened, UTC; None for one that is told again from a stored run."""

    at: datetime | None = field(default_factory=_now, kw_only=True, compare=False)


@dataclass(frozen=True)
class RunStarted(Timed):
    """First event: what is about to run; ``checks`` are the selected codes, ``rules`` what they
    are."""

    tool: Tool
    command: str
    spec: SpecRef
    environment: Environment
    seed: int
    started: str
    checks: tuple[str, ...]
    strict: bool = False
    rules: tuple[RuleInfo, ...] = ()


@dataclass(frozen=True)
class StageStarted(Timed):
    """A stage of the pipeline begins to build or run."""

    stage: Stage


@dataclass(frozen=True)
class StageFinished(Timed):
    """A stage ended."""

    result: StageResult


@dataclass(frozen=True)
class CheckStarted(Timed):
    """A check begins."""

    code: str
    name: str
    stage: Stage


@dataclass(frozen=True)
class CheckFinished(Timed):
    """A check ended."""

    result: CheckResult


@dataclass(frozen=True)
class ChecksLeftOut(Timed):
    """Checks that ``--fast`` does not ask, and why."""

    codes: tuple[str, ...]
    because: str


@dataclass(frozen=True)
class GuaranteeJudged(Timed):
    """All checks that a guarantee rests on have ended."""

    result: GuaranteeResult


@dataclass(frozen=True)
class Drawing(Timed):
    """Numbers for the report's pictures are collected."""

    doing: str


@dataclass(frozen=True)
class ExhibitsCollected(Timed):
    """What the run's batches look like."""

    exhibits: Exhibits


@dataclass(frozen=True)
class Repairing(Timed):
    """A cause is repaired in the live pipeline, to see what follows from it."""

    doing: str


@dataclass(frozen=True)
class CausesFound(Timed):
    """What failed, grouped: each cause with what follows from it."""

    causes: tuple[Cause, ...]


@dataclass(frozen=True)
class PatchOffered(Timed):
    """A change of the user's files with which the whole run was seen green."""

    patch: Patch


@dataclass(frozen=True)
class PatchWithheld(Timed):
    """No change of the user's files is offered, and why."""

    because: str


@dataclass(frozen=True)
class Reducing(Timed):
    """A failing case is made smaller, and stored."""

    doing: str


@dataclass(frozen=True)
class SweepPlanned(Timed):
    """A sweep begins: its cells, and a rough estimate of its seconds."""

    cells: tuple[Cell, ...]
    seconds: float


@dataclass(frozen=True)
class SweepProgress(Timed):
    """What a sweep is doing; ``done`` of ``total`` cells are finished, ``remaining`` are seconds at
    the present pace."""

    doing: str
    done: int
    total: int
    remaining: float


@dataclass(frozen=True)
class CellFinished(Timed):
    """A cell is measured, or will not be."""

    result: CellResult


@dataclass(frozen=True)
class Recommended(Timed):
    """What a sweep came to."""

    recommendation: Recommendation


@dataclass(frozen=True)
class Scaled(Timed):
    """How cost grows along an axis."""

    scaling: Scaling


@dataclass(frozen=True)
class Claimed(Timed):
    """A claim of the documentation with its answer."""

    claim: Claim


@dataclass(frozen=True)
class GateProgress(Timed):
    """What a gate is doing beside its checks and its sweep."""

    doing: str


@dataclass(frozen=True)
class GateDecided(Timed):
    """A budget, a comparison or an acceptance was decided."""

    item: GateItem


@dataclass(frozen=True)
class MemoryProgress(Timed):
    """What a study of the memory is doing."""

    doing: str


@dataclass(frozen=True)
class MemoryMeasured(Timed):
    """A question is answered, or its answer grew: all that is known by now."""

    result: MemoryResult


@dataclass(frozen=True)
class Notice(Timed):
    """Something the user should know that is no check's finding."""

    text: str


@dataclass(frozen=True)
class RunBroken(Timed):
    """The run ended before its end: where, and why; ``trace`` is that of an exception that nobody
    expected."""

    reason: str
    trace: str = ""


@dataclass(frozen=True)
class RunFinished(Timed):
    """Last event, also after an interruption: the whole run."""

    run: Run


Event = (
    RunStarted
    | StageStarted
    | StageFinished
    | CheckStarted
    | CheckFinished
    | ChecksLeftOut
    | GuaranteeJudged
    | Drawing
    | ExhibitsCollected
    | Repairing
    | CausesFound
    | PatchOffered
    | PatchWithheld
    | Reducing
    | SweepPlanned
    | SweepProgress
    | CellFinished
    | Recommended
    | Scaled
    | Claimed
    | GateProgress
    | GateDecided
    | MemoryProgress
    | MemoryMeasured
    | Notice
    | RunBroken
    | RunFinished
)
