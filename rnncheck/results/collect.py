"""From the stream of events to the Run, at any moment."""

from __future__ import annotations

from datetime import UTC, datetime

from rnncheck import __version__
from rnncheck.results.causes import judge_causes
from rnncheck.results.cells import Cell, CellResult, Status, cell_to_json
from rnncheck.results.claims import Claim
from rnncheck.results.environment import current_environment
from rnncheck.results.events import (
    CausesFound,
    CellFinished,
    CheckFinished,
    ChecksLeftOut,
    CheckStarted,
    Claimed,
    Drawing,
    Event,
    ExhibitsCollected,
    GateDecided,
    GateProgress,
    GuaranteeJudged,
    MemoryMeasured,
    MemoryProgress,
    Notice,
    Recommended,
    Reducing,
    Repairing,
    RunBroken,
    RunStarted,
    Scaled,
    StageFinished,
    StageStarted,
    SweepPlanned,
    SweepProgress,
)
from rnncheck.results.exhibits import Exhibits
from rnncheck.results.exit_codes import ExitCode
from rnncheck.results.gate import GateItem
from rnncheck.results.memory import MemoryResult, Question
from rnncheck.results.model import (
    Cause,
    CheckResult,
    GuaranteeResult,
    Run,
    SpecRef,
    Stage,
    StageResult,
    Tool,
    Verdict,
)
from rnncheck.results.recommendation import Recommendation
from rnncheck.results.scaling import Scaling
from rnncheck.results.verdict import judge, judge_gate, judge_memory, judge_sweep


class RunCollector:
    """Listens to the events of a run and keeps what they say.

    ``finish`` may be called after any event, or before the first: Ctrl-C leaves a Run with what was
    found so far.
    """

    def __init__(self, unstarted: RunStarted | None = None) -> None:
        """``unstarted`` is what is known of a run that ends before its first event."""
        self._started = unstarted
        self._broken = ""
        self._stages: dict[Stage, StageResult] = {}
        self._checks: dict[str, CheckResult] = {}  # of two results the later one counts
        self._left_out: list[str] = []
        self._guarantees: list[GuaranteeResult] = []
        self._causes: tuple[Cause, ...] = ()
        self._planned: tuple[Cell, ...] = ()
        self._cells: list[CellResult] = []
        self._recommended: list[Recommendation] = []
        self._scaled: list[Scaling] = []
        self._claims: list[Claim] = []
        self._gate: list[GateItem] = []
        self._memory: MemoryResult | None = None
        self._exhibits: Exhibits | None = None
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
                self._stages[event.result.stage] = event.result
                self._open = ""
            case CheckFinished():
                self._checks[event.result.code] = event.result
                self._open = ""
            case ChecksLeftOut():
                self._left_out += event.codes
                self._notices.append(event.because)
            case GuaranteeJudged():
                self._guarantees.append(event.result)
            case Repairing() | Reducing() | Drawing():
                self._open = event.doing
            case ExhibitsCollected():
                self._exhibits = event.exhibits
                self._open = ""
            case CausesFound():
                self._open = ""
                self._causes = event.causes
            case SweepPlanned():
                self._planned = event.cells
            case SweepProgress():
                self._open = event.doing
            case CellFinished():
                self._cells.append(event.result)
                self._open = ""
            case Recommended():
                self._recommended.append(event.recommendation)
            case Scaled():
                self._scaled.append(event.scaling)
            case Claimed():
                self._claims.append(event.claim)
            case GateProgress():
                self._open = event.doing
            case GateDecided():
                self._gate.append(event.item)
            case MemoryProgress():
                self._open = event.doing
            case MemoryMeasured():
                self._memory = event.result
                self._open = ""
            case Notice():
                self._notices.append(event.text)
            case RunBroken():
                self._broken = f"the run ended early: {event.reason}"

    def finish(self, interrupted: bool, seconds: float, *, terminated: bool = False) -> Run:
        """The run so far, judged; ``terminated`` where it was SIGTERM that interrupted it."""
        start = self._started or unstarted()
        cells = self._rows(interrupted)
        verdict, code = self._judged(start, cells, interrupted)
        if self._broken and code not in (ExitCode.FAILED, ExitCode.INTERRUPTED):
            verdict, code = Verdict.ERROR, ExitCode.INTERNAL
        if terminated and code is ExitCode.INTERRUPTED:
            code = ExitCode.TERMINATED
        last_words = self._interruption(start) if interrupted else []
        last_words += [self._broken] if self._broken else []
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
            stages=tuple(self._stages.values()),
            checks=self._listed(start),
            notices=(*self._notices, *last_words),
            rules=start.rules,
            strict=start.strict,
            left_out=tuple(self._left_out),
            exhibits=self._exhibits,
            cells=tuple(cell_to_json(row) for row in cells),
            recommendations=tuple(self._recommended),
            scalings=tuple(self._scaled),
            claims=tuple(self._claims),
            gate=tuple(self._gate),
            memory=self._memory,
            guarantees=tuple(self._guarantees),
            causes=self._causes or judge_causes(self._listed(start), strict=start.strict),
        )

    def _listed(self, start: RunStarted) -> tuple[CheckResult, ...]:
        """The results in the order of the list of checks, whichever was asked first."""
        order = {code: index for index, code in enumerate(start.checks)}
        found = self._checks.values()
        return tuple(sorted(found, key=lambda check: order.get(check.code, len(order))))

    def _judged(
        self, start: RunStarted, cells: list[CellResult], interrupted: bool
    ) -> tuple[Verdict, ExitCode]:
        checks = judge(
            self._checks.values(),
            strict=start.strict,
            interrupted=interrupted,
            stages=self._stages.values(),
            guarantees=self._guarantees,
        )
        if start.command == "memory":
            stages = self._stages.values()
            return judge_memory(self._memory, stages, strict=start.strict, interrupted=interrupted)
        if start.command == "gate":
            asked = bool(start.checks or self._stages or interrupted)
            return judge_gate(checks if asked else None, self._gate, strict=start.strict)
        return judge_sweep(cells, interrupted=interrupted) if self._planned else checks

    def _rows(self, interrupted: bool) -> list[CellResult]:
        """The finished cells in the order of the plan, and rows for those that an interruption left
        out."""
        order = {cell.key: index for index, cell in enumerate(self._planned)}
        found = sorted(self._cells, key=lambda row: order.get(row.cell.key, len(order)))
        if not interrupted:
            return found
        known = {row.cell.key for row in found}
        left = [cell for cell in self._planned if cell.key not in known]
        return [*found, *(CellResult(cell, Status.SKIPPED, "interrupted") for cell in left)]

    def _interruption(self, start: RunStarted) -> list[str]:
        """What the interruption hit, and what it left undone."""
        done = {*self._checks, *self._left_out}
        left = [code for code in start.checks if code not in done]
        if self._planned and (count := len(self._planned) - len(self._cells)):
            resumed = " (go on with `rnncheck bench --resume`)" if start.command == "bench" else ""
            left.append(f"{count} cells{resumed}")
        if start.command == "memory":
            answered = self._memory.answered if self._memory is not None else ()
            questions = ", ".join(str(one) for one in Question if one not in answered)
            kept = " (go on with `rnncheck memory --resume`)" if self._memory is not None else ""
            left.append(questions + kept)
        hit = f"interrupted during {self._open}" if self._open else "interrupted"
        return [f"{hit}; not run: {', '.join(left)}" if left else hit]


def unstarted(
    command: str = "", spec: SpecRef | None = None, seed: int = 0, device: str = "cpu"
) -> RunStarted:
    """Stands in for the first event of a run that ends before it."""
    return RunStarted(
        tool=Tool("rnncheck", __version__),
        command=command,
        spec=spec or SpecRef("", "", ""),
        environment=current_environment(device),
        seed=seed,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        checks=(),
    )
