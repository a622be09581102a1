"""One group of cells: prepared in one worker, measured in interleaved rounds until their intervals
are narrow.

A cell that kills or blocks the worker costs itself alone: the others are prepared again in a fresh
process and keep the samples that they have.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rnncheck.bench.distrust import UNJUDGED, reasons
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
from rnncheck.bench.pace import best_pace, speed
from rnncheck.bench.pairs import paired, settled
from rnncheck.bench.process import (
    AnyWorker,
    WorkerDied,
    WorkerGarbled,
    WorkerHangs,
    WorkerTrouble,
    ask,
    receive,
)
from rnncheck.bench.schedule import Turn
from rnncheck.numerics.statistics import Interval, median_interval
from rnncheck.printable import counted
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
# Of the seconds that are set aside for them: rounds on a busy machine take longer than warming up.
# Chosen.
SLACK = 1.5
UNMEASURED = "not measured: budget"
REACHED, CLEAR, SPENT = "interval reached", "choice clear", "budget spent"

OpenWorker = Callable[[], AnyWorker]
Load = Callable[[], Usage | None]  # of the machine that the worker runs on


@dataclass(frozen=True)
class Limits:
    """``interval`` is relative, ``timeout`` seconds for one answer of a worker. Where the group is
    ``choosing`` it ends as soon as it is clear which of its variants is the fastest."""

    interval: float
    timeout: float
    choosing: bool = False


@dataclass
class CellInProgress:
    """A cell on its way: what its preparation said, and its samples so far."""

    cell: Cell
    told: CellPrepared | None = None
    rounds: list[int] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    pace: list[float] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    end: tuple[Status, str] | None = None  # it will not be measured (any more)
    late: str = ""  # why there is no time for it (any more)
    clear: bool = False  # whether it is the fastest, or is not, was clear at the last look

    @property
    def alive(self) -> bool:
        return self.end is None and not self.late

    @property
    def round_seconds(self) -> float:
        """About what its part of a round takes."""
        if self.wall:
            return (self.wall[-1] + self.waited[-1]) * self.repetitions
        return self.told.seconds * self.repetitions if self.told else 0.0

    @property
    def repetitions(self) -> int:
        """Calls within one sample."""
        return 1 if self.told is None else self.told.repetitions

    def samples(self, best: float = 0.0) -> Samples:
        """Beside a core at which the fixed work takes ``best`` seconds."""
        return Samples(
            tuple(self.rounds),
            tuple(self.wall),
            tuple(self.cpu),
            self.repetitions,
            tuple(self.workers),
            tuple(self.waited),
            tuple(speed(one, best) for one in self.pace if best > 0),
        )

    def interval(self, best: float) -> Interval:
        """Of the median of its samples, at that speed."""
        return median_interval(self.samples(best).steady)


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
        turn: Turn | None = None,
    ) -> None:
        self._turn = turn or Turn()
        self._cells = [CellInProgress(cell) for cell in cells]
        self._reference, self._limits, self._open = reference, limits, open_worker
        self._load = load
        self.worker = worker  # the living process, also after the run
        self._order = random.Random(seed)
        self._started = 0  # worker processes so far
        self._round = 0
        self._allotted = 0.0  # seconds that rounds may take
        self._spent = 0.0  # seconds in rounds
        self._timed = 0.0  # seconds of them inside samples, and of the fixed work beside these
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
            if self._in_time(one):
                self._secure(one)
                yield f"{one.cell.label}: preparing"
                self._prepare(one)
        yield from self._measure()
        if not self._turn.last:
            self._forget()

    def _forget(self) -> None:
        """Free what the cells hold in the worker; the next group goes on with it."""
        for one in self._cells:
            if not one.told or self.worker is None:
                continue
            try:
                ask(self.worker, DropCell(one.cell.key), CellDropped, self._patience)
            except WorkerTrouble:  # all is measured: nothing is lost
                self.worker = None

    # --- the time that there is ------------------------------------------------------------------

    @property
    def _fewest_rounds(self) -> float:
        """Seconds that they take of all living cells."""
        return FEWEST_ROUNDS * sum(one.round_seconds for one in self._cells if one.alive)

    @property
    def _patience(self) -> float:
        """Seconds that an answer is waited for."""
        return min(self._limits.timeout, self._turn.left(self._turn.end))

    def _patience_with(self, one: CellInProgress) -> float:
        """Seconds that a cell may take to be prepared: so many that the others can be brought into
        a fresh process and measured if it does not end, at least twice those that are expected."""
        return min(self._patience, max(self._spare, 2 * self._turn.costs.of(one.cell)))

    @property
    def _spare(self) -> float:
        """Seconds that are left if the others are brought into a fresh process and measured."""
        left = self._turn.left(self._turn.ready)
        others = [other for other in self._cells if other.alive and other.told]
        if not others:
            return left
        costs = self._turn.costs
        again = costs.start + sum(costs.of(other.cell) for other in others)
        return left - SLACK * (again + self._fewest_rounds)

    def _secure(self, one: CellInProgress) -> None:
        """The fewest rounds of what is ready, before ``one`` may end the worker with no time to
        bring that into another."""
        ready = [other for other in self._cells if other.alive and other.told]
        unsure = self._turn.whole and self._spare < 2 * self._turn.costs.of(one.cell)
        if ready and unsure and self._round < FEWEST_ROUNDS:
            self._some_rounds(ready)

    def _in_time(self, one: CellInProgress) -> bool:
        """Whether a cell can be prepared, and all those that are measured a few times; notes where
        it cannot."""
        turn = self._turn
        needed = turn.costs.of(one.cell) + (turn.costs.start if self.worker is None else 0.0)
        left = turn.left(turn.ready)
        if needed + SLACK * self._fewest_rounds > left:
            one.late = f"{left:.1f} s were left, and preparing it takes about {needed:.1f} s"
        return not one.late

    def _ending(self, trouble: WorkerTrouble) -> tuple[Status, str] | None:
        """What became of the cell that the worker was at; None where the budget ended."""
        if isinstance(trouble, WorkerHangs) and trouble.seconds < self._limits.timeout:
            return None
        return _ending(trouble)

    # --- one process after another -------------------------------------------------------------

    def _prepare(self, one: CellInProgress) -> None:
        """Bring a cell into the worker, or note why it cannot be."""
        began = self._turn.clock()
        try:
            worker = self._alive_worker()
            began = self._turn.clock()
            command = PrepareCell(one.cell, self._turn.judging)
            answer = ask(worker, command, CellPrepared, self._patience_with(one))
        except WorkerTrouble as trouble:
            one.end, self.worker = self._ending(trouble), None
            one.late = f"it was not ready after {self._turn.clock() - began:.1f} s"
            return
        if isinstance(answer, WorkerFailed):
            one.end = (answer.status, answer.reason)
        else:
            one.told = answer
            self._turn.costs.saw(one.cell, self._turn.clock() - began)

    def _alive_worker(self) -> AnyWorker:
        """The present worker, or a fresh one into which all living cells are brought again."""
        if self.worker is None:
            began = self._turn.clock()
            self.worker = self._open()
            self._turn.costs.started(self._turn.clock() - began)
            self._started += 1
            for one in self._cells:
                if one.alive and one.told and self._in_time(one):
                    self._prepare(one)
        return self.worker

    # --- rounds ----------------------------------------------------------------------------------

    def _measure(self) -> Iterator[str]:
        """Rounds until every interval is narrow, or the choice is clear; a cell of which that can
        be said leaves the rounds, the reference stays to the last."""
        self._before, self._cpu_before, self._own_cpu = self._load(), time.process_time(), 0.0
        self._turn.begin_rounds(SLACK * self._fewest_rounds)
        self._allotted = self._turn.left(self._turn.until)
        self._drop_the_dearest()
        wide = [one for one in self._cells if one.alive]
        while wide and self._another_round(wide):
            self._some_rounds([one for one in self._cells if one in wide or self._leads(one)])
            wide = [one for one in wide if one.alive]
            if self._round % _ROUNDS_BETWEEN_LOOKS == 0:
                living = [one for one in self._cells if one.alive]
                wide = self._undecided(living)
                yield f"{len(living) - len(wide)} of {counted(len(living), 'cell')} measured"
        self._after = self._load()

    def _drop_the_dearest(self) -> None:
        """Of the cells whose fewest rounds do not fit, the dearest; the reference is the last that
        goes."""
        if not self._turn.whole:
            return
        left = self._turn.left(self._turn.until)
        while living := [one for one in self._cells if one.alive]:
            needed = self._fewest_rounds
            if needed <= left:
                return
            others = [one for one in living if not self._leads(one)] or living
            dearest = max(others, key=lambda one: one.round_seconds)
            dearest.late = f"{left:.1f} s were left for {FEWEST_ROUNDS} rounds of {needed:.1f} s"

    def _another_round(self, wide: list[CellInProgress]) -> bool:
        """Whether there is time for one."""
        turn = self._turn
        timed = [one for one in self._cells if one.alive and (one in wide or self._leads(one))]
        again = 0.0
        if not self.worker:
            again = turn.costs.start + sum(turn.costs.of(one.cell) for one in timed)
        fits = again + sum(one.round_seconds for one in timed) <= turn.left(turn.until)
        return fits or (not turn.whole and self._round < FEWEST_ROUNDS)

    def _undecided(self, living: list[CellInProgress]) -> list[CellInProgress]:
        """Those of which more rounds would say more."""
        if self._limits.choosing and len(living) > 1:
            told = settled([one.samples() for one in living])
            for one, clear in zip(living, told, strict=True):
                one.clear = clear
            return [one for one in living if not one.clear]
        return [one for one in living if not self._narrow(one)]

    def _leads(self, one: CellInProgress) -> bool:
        return one.alive and one.cell.variant == self._reference

    def _narrow(self, one: CellInProgress) -> bool:
        slow = one.told is not None and one.told.seconds >= SLOW
        least = SLOW_ROUNDS if slow else MIN_ROUNDS
        seen = len(one.wall) >= least and self._spent >= min(SETTLED, self._allotted)
        return seen and one.interval(self._best).relative <= self._limits.interval

    @property
    def _best(self) -> float:
        """Seconds of the fixed work at the best speed that was seen, whatever was timed then."""
        return best_pace([pace for one in self._cells for pace in one.pace])

    def _some_rounds(self, living: list[CellInProgress]) -> None:
        """Those up to the next look for which there is time, in one command: what wakes other
        processes between two calls is felt in the second."""
        left = self._turn.left(self._turn.until) / max(1e-9, sum(o.round_seconds for o in living))
        count = int(max(1, min(left, _ROUNDS_BETWEEN_LOOKS - self._round % _ROUNDS_BETWEEN_LOOKS)))
        begin = self._turn.clock()
        self._collect([self._order.sample(living, len(living)) for _ in range(count)])
        self._round += count
        self._spent += self._turn.clock() - begin

    def _collect(self, orders: Sequence[Sequence[CellInProgress]]) -> None:
        """Keep the samples of rounds; what goes wrong is the end of the cell that was timed."""
        by_key = {one.cell.key: one for one in orders[0]}
        current, rounds = orders[0][0], Counter[str]()
        try:
            worker = self._alive_worker()
            worker.send(TimeRound(tuple(o.cell.key for order in orders for o in order if o.alive)))
            while True:
                match receive(worker, RoundAnswer, self._patience):
                    case SampleBegun(key) if key in by_key:
                        current = by_key[key]
                        rounds[key] += 1
                    case SampleTaken() as sample if sample.key in by_key:
                        self._keep(by_key[sample.key], sample, self._round + rounds[sample.key])
                    case RoundEnded(cpu):
                        self._own_cpu += cpu
                        self._timed += sum(current.pace[-1:])  # that before the first sample
                        return
                    case WorkerFailed(status, reason):
                        current.end = (status, reason)
                        return
                    case other:
                        worker.kill()
                        raise WorkerGarbled(f"{other} in a round without that cell")
        except WorkerTrouble as trouble:
            current.end, self.worker = self._ending(trouble), None

    def _keep(self, one: CellInProgress, sample: SampleTaken, number: int) -> None:
        one.rounds.append(number)
        one.wall.append(sample.wall)
        one.cpu.append(sample.cpu)
        one.waited.append(sample.waited)
        one.pace.append(sample.pace)
        one.workers.append(self._started)
        self._timed += (sample.wall + sample.waited) * one.repetitions + sample.pace

    # --- results ---------------------------------------------------------------------------------

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
            return CellResult(one.cell, *one.end, samples=one.samples(self._best))
        if one.told is None or len(one.wall) < FEWEST_ROUNDS:
            why = one.late or f"{len(one.wall)} of {FEWEST_ROUNDS} rounds were done"
            return CellResult(one.cell, Status.SKIPPED, f"{UNMEASURED}: {why}")
        told, samples, found = one.told, one.samples(self._best), one.interval(self._best)
        stopped = REACHED if self._narrow(one) else CLEAR if one.clear else SPENT
        wanted = math.inf if one.clear else self._limits.interval
        cpu = median_interval(one.cpu).median
        timing = Timing(found.median, found.low, found.high, len(one.wall), stopped, cpu)
        accuracy = told.accuracy
        wrong = "" if accuracy is None or accuracy.right else _said(accuracy)
        unjudged = () if self._turn.judging else (UNJUDGED,)
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
            distrust=(*unjudged, *reasons(samples, timing, wanted, others, told.steady)),
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
