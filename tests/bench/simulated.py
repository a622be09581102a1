"""A worker that computes nothing: what it is asked moves a clock by as many seconds as it is told
that it takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rnncheck.bench.messages import (
    CellDropped,
    CellPrepared,
    Command,
    DropCell,
    PrepareCell,
    RoundEnded,
    SampleBegun,
    SampleTaken,
    TimeRound,
    WorkerAnswer,
)
from rnncheck.bench.process import WorkerHangs
from rnncheck.results.cells import Cell, Phase
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
    share ``noise``."""

    clock: Clock
    prepare: Mapping[str, float]
    call: Mapping[str, float]
    noise: float = 0.0
    draw: random.Random = field(default_factory=lambda: random.Random(0))
    _cells: dict[str, Cell] = field(default_factory=dict)
    _answers: list[tuple[float, Callable[[], WorkerAnswer]]] = field(default_factory=list)

    def send(self, command: Command) -> None:
        match command:
            case PrepareCell(cell):
                self._cells[cell.key] = cell
                name = cell.variant.label
                told = CellPrepared(
                    cell.key, 0.1, None, self.call[name], 1, True, None, None, "simulated"
                )
                self._later(self.prepare[name], told)
            case TimeRound(keys):
                for key in keys:
                    self._later(0.0, SampleBegun(key))
                    seconds = self.call[self._cells[key].variant.label]
                    seconds *= 1 + self.noise * self.draw.uniform(-1, 1)
                    self._later(seconds, SampleTaken(key, seconds, seconds))
                self._later(0.0, RoundEnded(0.0))
            case DropCell():
                self._later(0.0, CellDropped())

    def _later(self, seconds: float, answer: WorkerAnswer) -> None:
        self._answers.append((seconds, lambda: answer))

    def reply(self, timeout: float) -> WorkerAnswer:
        seconds, answer = self._answers.pop(0)
        self.clock.now += min(seconds, timeout)
        if seconds > timeout:
            raise WorkerHangs(timeout)
        return answer()

    def close(self) -> None:
        """It holds nothing."""

    def kill(self) -> None:
        """It holds nothing."""


def cell(variant: str, *, batch: int = 4, phase: Phase = Phase.TRAIN) -> Cell:
    return Cell(phase, parse_variant(variant), batch, 8, 0.1)
