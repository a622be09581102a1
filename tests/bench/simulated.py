"""A worker that computes nothing: what it is asked moves a clock by as many seconds as it is told
that it takes."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rnncheck.bench.messages import (
    CellDropped,
    CellPrepared,
    Command,
    DescribePipeline,
    DropCell,
    OpenPipeline,
    PipelineContents,
    PipelineOpened,
    PrepareCell,
    RoundEnded,
    SampleBegun,
    SampleTaken,
    TimeRound,
    WorkerAnswer,
    WorkerFailed,
)
from rnncheck.bench.process import WorkerDied, WorkerHangs
from rnncheck.results.cells import Cell, Phase, Status
from rnncheck.results.environment import current_environment
from rnncheck.results.variant import parse_variant


@dataclass
class Clock:
    """Stands still until it is moved."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class SimulatedWorker:
    """``prepare`` and ``call`` are seconds by the label of a cell's variant; a call's vary by the
    share ``noise``. A variant that ``kills`` ends it when it is prepared, one that ``raises`` does
    so when it is timed; ``judged`` are the cells whose numbers were asked for."""

    clock: Clock
    prepare: Mapping[str, float]
    call: Mapping[str, float]
    noise: float = 0.0
    kills: Collection[str] = ()
    raises: Collection[str] = ()
    judged: list[Cell] = field(default_factory=list)
    draw: random.Random = field(default_factory=lambda: random.Random(0))
    _cells: dict[str, Cell] = field(default_factory=dict)
    _answers: list[tuple[float, WorkerAnswer | WorkerDied]] = field(default_factory=list)

    def send(self, command: Command) -> None:
        match command:
            case OpenPipeline():
                self._later(0.0, PipelineOpened(threads=1))
            case PrepareCell(cell, judge):
                self._cells[cell.key] = cell
                self.judged += [cell] if judge else []
                self._prepare(cell)
            case TimeRound(keys):
                self._time([self._cells[key] for key in keys])
            case DropCell():
                self._later(0.0, CellDropped())
            case DescribePipeline():
                self._later(0.0, PipelineContents((), current_environment()))

    def _prepare(self, cell: Cell) -> None:
        name = cell.variant.label
        told = CellPrepared(cell.key, 0.1, None, self.call[name], 1, True, None, None, "simulated")
        self._later(self.prepare[name], WorkerDied(-9, "") if name in self.kills else told)

    def _time(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            name = cell.variant.label
            self._later(0.0, SampleBegun(cell.key))
            if name in self.raises:
                return self._later(0.0, WorkerFailed(Status.FAILED, "RuntimeError: out of luck"))
            seconds = self.call[name] * (1 + self.noise * self.draw.uniform(-1, 1))
            self._later(seconds, SampleTaken(cell.key, seconds, seconds, 0.0))
        self._later(0.0, RoundEnded(0.0))

    def _later(self, seconds: float, answer: WorkerAnswer | WorkerDied) -> None:
        self._answers.append((seconds, answer))

    def reply(self, timeout: float) -> WorkerAnswer:
        seconds, answer = self._answers.pop(0)
        self.clock.now += min(seconds, timeout)
        if seconds > timeout:
            raise WorkerHangs(timeout)
        if isinstance(answer, WorkerDied):
            raise answer
        return answer

    def close(self) -> None:
        """It holds nothing."""

    def kill(self) -> None:
        """It holds nothing."""


def cell(variant: str, *, batch: int = 4, phase: Phase = Phase.TRAIN) -> Cell:
    return Cell(phase, parse_variant(variant), batch, 8, 0.1)
