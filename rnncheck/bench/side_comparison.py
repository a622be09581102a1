"""The same cells on two sides, in fresh pairs of processes, until it is clear which side is slower.

Within one pair of processes the ratio of two sides soon stands still, but not at its true value:
the layout of each process's memory makes it a little faster or slower for good. So a pair is
measured briefly and replaced by a fresh one, and the verdict is drawn over pairs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rnncheck.bench.messages import (
    CellDropped,
    CellPrepared,
    DescribePipeline,
    DropCell,
    PipelineContents,
    PipelineOpened,
    PrepareCell,
    RoundAnswer,
    RoundEnded,
    SampleTaken,
    TimeRound,
    WorkerFailed,
)
from rnncheck.bench.process import START_UP, AnyWorker, WorkerTrouble, ask, receive
from rnncheck.bench.sides import Side, make_import_folder, open_command, scratch
from rnncheck.errors import UserError
from rnncheck.numerics.statistics import Interval, ratio_interval
from rnncheck.numerics.stopping import MAX_PAIRS, MIN_PAIRS, Measure, PairsAnswer, answer_of_pairs
from rnncheck.printable import counted
from rnncheck.results.cells import Cell

# Within a pair the ratio has a standard deviation of 0.3 % after 3 s of rounds, between pairs one
# of 1.8 % however long each is (measured, results.noise.BETWEEN): more seconds tell little.
PAIR = 3.0
_NARROW = 0.006  # relative half-interval of a pair's ratio (2 x 0.3 %) at which it is left early
# Rounds of a pair, at least: of 12 samples the 3rd and the 10th enclose the median with 96.1 %.
ROUNDS = 12
# Calls that take seconds get few rounds, where these take LONG times PAIR. Chosen: the pair's own
# ratio is then loose, and the spread between the pairs shows it.
FEW_ROUNDS, LONG = 4, 3
# Percentile of CPU time that is little disturbed by what else runs. Chosen between the minimum,
# which one lucky call decides, and the median, which other work moves.
CALM = 25


@dataclass
class CellComparison:
    """One cell on both sides: ratios of times (here over there), one for each pair.

    What ended it is there where something did.
    """

    cell: Cell
    ratios: dict[Measure, list[float]] = field(
        default_factory=lambda: {measure: [] for measure in Measure}
    )
    told: dict[str, CellPrepared] = field(default_factory=dict)  # by side, of the first pair
    end: dict[str, str] = field(default_factory=dict)  # by side: why it cannot be measured there


@dataclass(frozen=True)
class ComparisonRules:
    """When to stop: ``allowed`` is a share, ``budget`` and ``timeout`` are seconds."""

    allowed: float
    budget: float
    timeout: float
    memory_limit: int | None = None
    threads: int = 1  # of torch: one bears a busy machine best
    seed: int = 0


class SideComparison:
    """Exhaust ``run``; then the ``cells`` hold what was found."""

    def __init__(
        self, sides: tuple[Side, Side], cells: Sequence[Cell], rules: ComparisonRules
    ) -> None:
        self.sides, self.rules = sides, rules
        self.cells = [CellComparison(cell) for cell in cells]
        self.pairs = 0
        self.about: dict[str, PipelineContents] = {}  # by side
        self._order = random.Random(rules.seed)

    def run(self) -> Iterator[str]:
        """What is being done, in words. Raises UserError where a side cannot build the pipeline."""
        begin = time.perf_counter()
        with scratch() as folder:
            import_folder = make_import_folder(Path(folder))
            while todo := [comparison for comparison in self.cells if self._is_open(comparison)]:
                spent = time.perf_counter() - begin
                if self.pairs >= MAX_PAIRS or (
                    self.pairs >= MIN_PAIRS and spent > self.rules.budget
                ):
                    break
                yield f"pair {self.pairs + 1} of processes, {counted(len(todo), 'cell')} open"
                # one that broke is not counted: it ends a cell, the others need all of theirs
                self.pairs += self._pair(todo, import_folder)

    def _is_open(self, comparison: CellComparison) -> bool:
        return not comparison.end and self._answer(comparison, last=False) is PairsAnswer.OPEN

    @property
    def compared(self) -> bool:
        """Whether any cell could be measured on both sides."""
        return not all(comparison.end for comparison in self.cells)

    def answer(self, comparison: CellComparison) -> PairsAnswer:
        """The verdict on one cell, when all is measured."""
        return self._answer(comparison, last=True)

    def _answer(self, comparison: CellComparison, *, last: bool) -> PairsAnswer:
        before = answer_of_pairs(comparison.ratios, self.rules.allowed, comparisons=len(self.cells))
        if before is not PairsAnswer.OPEN or not last:
            return before
        return answer_of_pairs(
            comparison.ratios, self.rules.allowed, comparisons=len(self.cells), last=True
        )

    # --- one pair --------------------------------------------------------------------------------

    def _pair(self, cells: Sequence[CellComparison], import_folder: Path) -> bool:
        """Whether it came to its end."""
        order = (0, 1) if self.pairs % 2 else (1, 0)  # who starts first must not matter
        started = {index: self.sides[index].worker(import_folder) for index in order}
        workers = [started[0], started[1]]
        try:
            self._open(workers, order)
            for comparison in cells:
                if repetitions := self._prepare(comparison, workers):
                    self._measure(comparison, workers, repetitions)
                self._drop(comparison, workers)
            self._ask_about(workers)
        except PairBroken:
            return False  # the next pair goes on without the cell that broke it
        finally:
            for worker in workers:
                worker.kill()
        return True

    def _open(self, workers: Sequence[AnyWorker], order: Sequence[int]) -> None:
        """Both at once: starting is not timed."""
        for i in order:
            rules = self.rules
            opening = open_command(self.sides[i], rules.memory_limit, rules.threads)
            workers[i].send(opening)
        for side, worker in zip(self.sides, workers, strict=True):
            try:
                found = receive(worker, PipelineOpened, max(START_UP, self.rules.timeout))
            except WorkerTrouble as error:
                raise UserError(f"{side.name}: the process did not start ({error})") from error
            if isinstance(found, WorkerFailed):
                raise UserError(f"{side.name}: the pipeline cannot be built: {found.reason}")

    def _ask_about(self, workers: Sequence[AnyWorker]) -> None:
        for side, worker in zip(self.sides, workers, strict=True):
            if side.name not in self.about:
                with suppress(WorkerTrouble):  # the next pair is asked
                    found = ask(worker, DescribePipeline(), PipelineContents, self.rules.timeout)
                    if not isinstance(found, WorkerFailed):
                        self.about[side.name] = found

    def _prepare(self, comparison: CellComparison, workers: Sequence[AnyWorker]) -> int | None:
        """Both at once; the numbers are judged in the first pair alone.

        Returns how many calls a sample is, alike on both sides: the first of them find other caches
        than the last.
        None where the cell cannot be measured.
        """
        judge, repetitions = not comparison.told, 1
        both = list(zip(self.sides, workers, strict=True))
        for side, worker in both if self.pairs % 2 else both[::-1]:
            with ending(comparison, side):
                worker.send(PrepareCell(comparison.cell, judge))
        for side, worker in zip(self.sides, workers, strict=True):
            with ending(comparison, side):
                found = receive(worker, CellPrepared, self.rules.timeout)
            if isinstance(found, WorkerFailed):
                comparison.end[side.name] = found.reason
                continue
            repetitions = max(repetitions, found.repetitions)
            comparison.told.setdefault(side.name, found)
        return None if comparison.end else repetitions

    def _measure(
        self, comparison: CellComparison, workers: Sequence[AnyWorker], repetitions: int
    ) -> None:
        """Rounds in turn, the order of the sides drawn anew each time."""
        seen: tuple[list[_CallTimes], list[_CallTimes]] = ([], [])
        begin = time.perf_counter()
        while True:
            for index in self._order.sample((0, 1), 2):
                with ending(comparison, self.sides[index]):
                    sample = _sample(
                        workers[index], comparison.cell, repetitions, self.rules.timeout
                    )
                    seen[index].append(sample)
            if _enough(seen, time.perf_counter() - begin):
                break
        comparison.ratios[Measure.WALL].append(1 / _wall(seen).median)
        comparison.ratios[Measure.CPU].append(_cpu(seen))

    def _drop(self, comparison: CellComparison, workers: Sequence[AnyWorker]) -> None:
        """Give its memory back: the next cell may need it."""
        for side, worker in zip(self.sides, workers, strict=True):
            with ending(comparison, side):
                ask(worker, DropCell(comparison.cell.key), CellDropped, self.rules.timeout)


_CallTimes = tuple[float, float]  # wall and CPU seconds of one call


def _enough(seen: tuple[list[_CallTimes], list[_CallTimes]], seconds: float) -> bool:
    """Whether another round of this pair would tell little; long calls get few rounds."""
    rounds = len(seen[0])
    if rounds < ROUNDS:
        return rounds >= FEW_ROUNDS and seconds >= LONG * PAIR
    return seconds >= PAIR or (rounds % 4 == 0 and _wall(seen).relative <= _NARROW)


def _wall(seen: tuple[list[_CallTimes], list[_CallTimes]]) -> Interval:
    """How many times faster the first side is, by wall time."""
    here, there = ([wall for wall, _ in side] for side in seen)
    return ratio_interval(here, there)


def _cpu(seen: tuple[list[_CallTimes], list[_CallTimes]]) -> float:
    """CPU time of the first side over that of the second; 1 where the system does not tell it."""
    first, second = (np.percentile([cpu for _, cpu in side], CALM) for side in seen)
    return float(first / second) if first > 0 and second > 0 else 1.0


class PairBroken(Exception):
    """A process of the pair ended, hangs, or a call in it raised."""


class CallFailed(Exception):
    """What a call said when it raised in the middle of the rounds."""


@contextmanager
def ending(comparison: CellComparison, side: Side) -> Iterator[None]:
    """What happens to a worker inside ends the comparison on that side, and the pair."""
    try:
        yield
    except (WorkerTrouble, CallFailed) as error:
        comparison.end[side.name] = str(error)
        raise PairBroken from error


def _sample(worker: AnyWorker, cell: Cell, repetitions: int, timeout: float) -> _CallTimes:
    """One sample. Raises CallFailed and WorkerTrouble."""
    worker.send(TimeRound((cell.key,), repetitions))
    taken = (float("nan"), float("nan"))
    while True:
        match receive(worker, RoundAnswer, timeout):
            case SampleTaken(_, wall, cpu):
                taken = (wall, cpu)
            case RoundEnded():
                return taken
            case WorkerFailed(_, reason):
                raise CallFailed(reason)
