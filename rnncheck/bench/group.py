"""One group of cells: prepared in one worker, measured in interleaved rounds until their intervals
are narrow.

A cell that kills or blocks the worker costs itself alone: the others are prepared again in a fresh
process and keep the samples that they have.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rnncheck.bench.distrust import reasons
from rnncheck.bench.load import Usage, others_share, usage
from rnncheck.bench.messages import (
    CellDropped,
    CellPrepared,
    DropCell,
    PrepareCell,
    RoundAnswer,
    RoundEnded,
    SampleBegun,
    SampleTaken,
    TimeRound,
    WorkerFailed,
)
from rnncheck.bench.pairs import paired
from rnncheck.bench.process import (
    AnyWorker,
    WorkerDied,
    WorkerGarbled,
    WorkerHangs,
    WorkerTrouble,
    ask,
    receive,
)
from rnncheck.numerics.statistics import Interval, median_interval
from rnncheck.results.cells import (
    Accuracy,
    Cell,
    CellResult,
    Samples,
    Status,
    Timing,
)
from rnncheck.results.variant import Variant

# Of 16 independent samples the 4th and the 13th enclose the median with 97.9 %; of 8 it takes the
# whole range (99.2 %), so that one slow round decides: those are for calls that take long.
MIN_ROUNDS = 16
SLOW_ROUNDS = 8
# Seconds of a call from which the fewer rounds do. Chosen: MIN_ROUNDS of such a call take 8 s.
SLOW = 0.5
# Seconds of rounds before which no interval is believed: the machine drifts over seconds. The ratio
# of two calls that were measured in turn had a standard deviation of 0.3 % after as many.
SETTLED = 3.0
# Chosen: an interval that is looked at after each round is narrow by chance now and then.
_ROUNDS_BETWEEN_LOOKS = 4
# Where the budget is spent: the fewest rounds that say anything of each cell, as in a pair of
# sides.
FEWEST_ROUNDS = 4
REACHED, SPENT = "interval reached", "budget spent"

OpenWorker = Callable[[], AnyWorker]
Load = Callable[[], Usage | None]  # of the machine that the worker runs on


@dataclass(frozen=True)
class Limits:
    """``interval`` is relative; the others are seconds: for one answer of a worker, and for all
    rounds of the group."""

    interval: float
    timeout: float
    budget: float


@dataclass
class CellInProgress:
    """A cell on its way: what its preparation said, and its samples so far."""

    cell: Cell
    told: CellPrepared | None = None
    rounds: list[int] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    end: tuple[Status, str] | None = None  # it will not be measured (any more)

    @property
    def alive(self) -> bool:
        return self.end is None

    @property
    def repetitions(self) -> int:
        """Calls within one sample."""
        return 1 if self.told is None else self.told.repetitions

    def samples(self) -> Samples:
        return Samples(
            tuple(self.rounds),
            tuple(self.wall),
            tuple(self.cpu),
            self.repetitions,
            tuple(self.workers),
        )

    def interval(self) -> Interval:
        return median_interval(self.wall)


class Group:
    """Measures one group: exhaust ``run``, then take the ``results``."""

    def __init__(
        self,
        cells: Sequence[Cell],
        reference: Variant,
        limits: Limits,
        open_worker: OpenWorker,
        seed: int,
        worker: AnyWorker | None = None,
        load: Load = usage,
    ) -> None:
        self._cells = [CellInProgress(cell) for cell in cells]
        self._reference, self._limits, self._open = reference, limits, open_worker
        self._load = load
        self.worker = worker  # the living process, also after the run
        self._order = random.Random(seed)
        self._started = 0  # worker processes so far
        self._round = 0
        self._spent = 0.0  # seconds in rounds
        self._timed = 0.0  # seconds of them inside samples
        self._own_cpu = 0.0
        self._cpu_before = 0.0  # of this process
        self._before: Usage | None = None
        self._after: Usage | None = None

    @property
    def overhead(self) -> float:
        """Seconds in rounds beyond those that were timed, over those that were timed."""
        return self._spent / self._timed - 1 if self._timed else 0.0

    def run(self) -> Iterator[str]:
        """What is being done, in words."""
        for one in self._cells:
            yield f"{one.cell.label}: preparing"
            self._prepare(one)
        yield from self._measure()
        self._forget()

    def _forget(self) -> None:
        """Free what the cells hold in the worker; the next group goes on with it."""
        for one in self._cells:
            if not one.told or self.worker is None:
                continue
            try:
                ask(self.worker, DropCell(one.cell.key), CellDropped, self._limits.timeout)
            except WorkerTrouble:  # all is measured: nothing is lost
                self.worker = None

    # --- one process after another -------------------------------------------------------------

    def _prepare(self, one: CellInProgress) -> None:
        """Bring a cell into the worker, or note why it cannot be."""
        try:
            worker = self._alive_worker()
            answer = ask(worker, PrepareCell(one.cell), CellPrepared, self._limits.timeout)
        except WorkerTrouble as trouble:
            one.end, self.worker = _ending(trouble), None
            return
        if isinstance(answer, WorkerFailed):
            one.end = (answer.status, answer.reason)
        else:
            one.told = answer

    def _alive_worker(self) -> AnyWorker:
        """The present worker, or a fresh one into which all living cells are brought again."""
        if self.worker is None:
            self.worker = self._open()
            self._started += 1
            for one in self._cells:
                if one.alive and one.told:
                    self._prepare(one)
        return self.worker

    # --- rounds ----------------------------------------------------------------------------------

    def _measure(self) -> Iterator[str]:
        """Rounds until every interval is narrow; a cell whose own is leaves the rounds, the
        reference stays to the last."""
        self._before, self._cpu_before = self._load(), time.process_time()
        wide = [one for one in self._cells if one.alive]
        while wide:
            if self._spent >= self._limits.budget and self._round >= FEWEST_ROUNDS:
                break
            self._one_round([one for one in self._cells if one in wide or self._leads(one)])
            wide = [one for one in wide if one.alive]
            if self._round % _ROUNDS_BETWEEN_LOOKS == 0:
                living = [one for one in self._cells if one.alive]
                wide = [one for one in living if not self._narrow(one)]
                yield f"{len(living) - len(wide)} of {len(living)} intervals are narrow enough"
        self._after = self._load()

    def _leads(self, one: CellInProgress) -> bool:
        return one.alive and one.cell.variant == self._reference

    def _narrow(self, one: CellInProgress) -> bool:
        slow = one.told is not None and one.told.seconds >= SLOW
        least = SLOW_ROUNDS if slow else MIN_ROUNDS
        seen = len(one.wall) >= least and self._spent >= min(SETTLED, self._limits.budget)
        return seen and one.interval().relative <= self._limits.interval

    def _one_round(self, living: list[CellInProgress]) -> None:
        order = list(living)
        self._order.shuffle(order)
        self._round += 1
        begin = time.perf_counter()
        self._collect(order)
        self._spent += time.perf_counter() - begin

    def _collect(self, order: Sequence[CellInProgress]) -> None:
        """Keep the samples of one round; what goes wrong is the end of the cell that was timed."""
        by_key = {one.cell.key: one for one in order}
        current = order[0]
        try:
            worker = self._alive_worker()
            worker.send(TimeRound(tuple(one.cell.key for one in order if one.alive)))
            while True:
                match receive(worker, RoundAnswer, self._limits.timeout):
                    case SampleBegun(key) if key in by_key:
                        current = by_key[key]
                    case SampleTaken() as sample if sample.key in by_key:
                        self._keep(by_key[sample.key], sample)
                    case RoundEnded(cpu):
                        self._own_cpu += cpu
                        return
                    case WorkerFailed(status, reason):
                        current.end = (status, reason)
                        return
                    case other:
                        worker.kill()
                        raise WorkerGarbled(f"{other} in a round without that cell")
        except WorkerTrouble as trouble:
            current.end, self.worker = _ending(trouble), None

    def _keep(self, one: CellInProgress, sample: SampleTaken) -> None:
        one.rounds.append(self._round)
        one.wall.append(sample.wall)
        one.cpu.append(sample.cpu)
        one.workers.append(self._started)
        self._timed += sample.wall * one.repetitions

    # --- results
    # -----------------------------------------------------------------------------------

    def results(self) -> list[CellResult]:
        """What came out, in the order of the cells."""
        own = self._own_cpu + time.process_time() - self._cpu_before
        others = others_share(self._before, self._after, own)
        found = [self._result(one, others) for one in self._cells]
        leading = [r for r in found if r.cell.variant == self._reference and r.counts]
        references = {one.cell.target: one for one in leading}
        return [_compared(result, references.get(result.cell.target)) for result in found]

    def _result(self, one: CellInProgress, others: float | None) -> CellResult:
        if one.end is not None:
            return CellResult(one.cell, *one.end, samples=one.samples())
        if one.told is None or not one.wall:
            return CellResult(
                one.cell, Status.SKIPPED, "the budget was spent before it was measured"
            )
        told, samples, found = one.told, one.samples(), one.interval()
        stopped = REACHED if self._narrow(one) else SPENT
        cpu = median_interval(one.cpu).median
        timing = Timing(found.median, found.low, found.high, len(one.wall), stopped, cpu)
        accuracy = told.accuracy
        wrong = "" if accuracy is None or accuracy.right else _said(accuracy)
        return CellResult(
            one.cell,
            Status.WRONG if wrong else Status.OK,
            wrong,
            samples=samples,
            timing=timing,
            accuracy=accuracy,
            memory=told.memory,
            first_call=told.first_call,
            compile=told.compile,
            distrust=reasons(samples, timing, self._limits.interval, others, told.steady),
            engine=told.engine,
        )


def _ending(trouble: WorkerTrouble) -> tuple[Status, str]:
    """What became of the cell that a worker was at when it gave no further answer."""
    match trouble:
        case WorkerHangs():
            return Status.TIMEOUT, str(trouble)
        case WorkerDied():
            killed = " (by the system, perhaps for its memory)"
            told = killed if trouble.signal == "SIGKILL" else ""
            last = trouble.words.splitlines()[-1:] or [""]
            return Status.CRASHED, f"{trouble}{told}" + (f": {last[0]}" if last[0] else "")
    return Status.FAILED, str(trouble)


def _said(accuracy: Accuracy) -> str:
    gradient = accuracy.gradient or 0.0
    bad = accuracy.output > accuracy.output_bound
    error, bound = (
        (accuracy.output, accuracy.output_bound) if bad else (gradient, accuracy.gradient_bound)
    )
    where = f" in {accuracy.worst}" if accuracy.worst else ""
    kind = "output" if bad else "gradient"
    return f"{kind} error {error:.2g}{where} against float64, allowed {bound:.2g}"


def _compared(result: CellResult, reference: CellResult | None) -> CellResult:
    """With its speed-up over the reference."""
    if reference is None or result.timing is None or result is reference:
        return result
    return replace(result, ratio=paired(result, reference))
