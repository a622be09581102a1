"""How long a sweep will take, by a short probe: one worker, some of the cells, nothing kept."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from rnncheck.bench.group import MIN_ROUNDS, SETTLED
from rnncheck.bench.messages import (
    CellPrepared,
    PrepareCell,
    RoundAnswer,
    SampleBegun,
    SampleTaken,
    TimeRound,
)
from rnncheck.bench.pairs import CLOSE, LEAST
from rnncheck.bench.process import AnyWorker, WorkerTrouble, ask, receive
from rnncheck.bench.schedule import COMPILE, ENDING, START, Clock, Costs, guess
from rnncheck.bench.timer import SAMPLE
from rnncheck.numerics.statistics import effective_size
from rnncheck.results.cells import Cell, Phase

PROBE = 8.0  # seconds of cells, after the start. Chosen: a person still waits for it
# That say how much the times of cells vary, alone and beside each other, and so many seconds at
# most: of 40 a deviation is known to some 15 %.
ROUNDS, VARYING = 40, 4.0
# Half of a median's interval in standard deviations over the root of the rounds: 1.25 for a median,
# times what a fixed interval takes, and one that holds at every look with some 50 to 200 rounds. A
# group waits for the last of its cells: 1.15 is about what the widest of three intervals adds.
FIXED, RUNNING = 1.15 * 1.25 * 1.96, 1.25 * 3.7
SOONEST = 10  # rounds: no choice is clear before
MAD = 1.48  # standard deviations of a normal distribution in a median absolute deviation
MEDIAN = 1.25  # of a median of many, in those of a mean
PREPARING = 10  # calls or more that preparing a cell takes
WARM = math.sqrt(3)  # the root of the blocks whose median is a warm cell's time

Kind = tuple[str, Phase]


@dataclass
class Probe:
    """What was seen: seconds of the start, of each cell that there was time for and of its calls,
    and by how much, as a logarithm, a cell's times vary. ``samples`` are logarithms of the seconds
    of calls in the same rounds; ``late`` are the seconds after which cells were not ready: of a
    sweep that has some, the least is known alone."""

    start: float = START
    costs: Costs = field(default_factory=Costs)
    rounds: dict[Kind, list[float]] = field(default_factory=dict)
    calls: dict[Kind, list[float]] = field(default_factory=dict)
    samples: dict[Kind, list[float]] = field(default_factory=dict)
    late: dict[Kind, float] = field(default_factory=dict)
    noise: float = 0.02

    def estimate(
        self, groups: Sequence[Sequence[Cell]], budget: float, interval: float, *, choosing: bool
    ) -> float:
        """Seconds of the sweep, at most ``budget``."""
        found = sum(self._group(group, interval, choosing=choosing) for group in groups)
        return min(budget, self.start + found + ENDING)

    def _group(self, cells: Sequence[Cell], interval: float, *, choosing: bool) -> float:
        rounds = [self._round(cell) for cell in cells]
        preparing = sum(max(self.costs.of(one), self.late.get(_kind(one), 0.0)) for one in cells)
        if not choosing or len(cells) == 1:
            needed = max(MIN_ROUNDS, (FIXED * self.noise / interval) ** 2)
            return preparing + max(SETTLED, needed * sum(rounds))
        fastest = min(cells, key=self._call)
        counts = [self._until_clear(cell, fastest) for cell in cells]
        counts[cells.index(fastest)] = counts[0] = max(counts)  # the fastest and the reference
        return preparing + sum(n * each for n, each in zip(counts, rounds, strict=True))

    def _until_clear(self, cell: Cell, fastest: Cell) -> float:
        """Rounds until the two are told apart, or known to be about as fast: see
        ``pairs.settled``."""
        if cell is fastest:
            return SOONEST
        apart, noise, error = self._compared(_kind(cell), _kind(fastest))
        surely = max(0.0, apart**2 - error**2)  # what noise alone lets them seem apart by is none
        half = max(math.sqrt(max(0.0, surely - LEAST**2)), CLOSE * LEAST)
        return max(SOONEST, (RUNNING * noise / half) ** 2)

    def _compared(self, one: Kind, other: Kind) -> tuple[float, float, float]:
        """By how much two are apart (a logarithm), by how much their ratio varies from round to
        round, as if rounds were independent, and how well it is known."""
        mine, theirs = self.samples.get(one), self.samples.get(other)
        if mine is None or theirs is None or one == other:
            noise = math.sqrt(2) * self.noise
            return math.log(self._call_of(one) / self._call_of(other)), noise, MEDIAN * noise / WARM
        ratios = np.array(mine) - np.array(theirs)
        middle = float(np.median(ratios))
        effective = effective_size(ratios, cautious=True)
        noise = _deviation(list(ratios)) * math.sqrt(len(ratios) / effective)
        return middle, noise, MEDIAN * noise / math.sqrt(len(ratios))

    def _call(self, cell: Cell) -> float:
        return self._call_of(_kind(cell))

    def _call_of(self, kind: Kind) -> float:
        """Seconds of a call: as the same variant took, or as any."""
        late = self.late.get(kind)
        return _known(self.calls, kind) if late is None else late / PREPARING

    def _round(self, cell: Cell) -> float:
        """Seconds of its part of a round: as the same variant took, or as any."""
        kind = _kind(cell)
        return self._call_of(kind) if kind in self.late else _known(self.rounds, kind)


def _known(seen: dict[Kind, list[float]], kind: Kind) -> float:
    known = seen.get(kind) or [one for all_of in seen.values() for one in all_of]
    return median(known) if known else SAMPLE


def _kind(cell: Cell) -> Kind:
    return cell.variant.label, cell.phase


def _deviation(values: Sequence[float]) -> float:
    middle = median(values)
    return MAD * median(abs(one - middle) for one in values)


def probed(
    groups: Sequence[Sequence[Cell]],
    open_worker: Callable[[], AnyWorker],
    timeout: float,
    *,
    seconds: float = PROBE,
    clock: Clock = time.monotonic,
) -> Probe:
    """Start a worker and prepare cells in it, the soonest of each group first, until ``seconds``
    and ``VARYING`` more for rounds are over. Raises UserError where the pipeline cannot be
    built."""
    begin = clock()
    worker = open_worker()
    try:
        found = Probe(clock() - begin)
        until = clock() + seconds
        try:
            cells = _in_turn(groups)
            soon = [cell for cell in cells if guess(cell) < COMPILE]
            ready = _prepared(found, worker, soon, timeout, until, clock)
            if found.late and ready:  # the worker has ended: the others again, in another one
                worker = open_worker()
                keys = {one.key for one in ready}
                soon = [cell for cell in soon if cell.key in keys]
                ready = _prepared(found, worker, soon, timeout, clock() + seconds, clock)
            _vary(found, worker, ready, timeout, clock)
            late = [cell for cell in cells if guess(cell) >= COMPILE]  # one may end the worker
            _prepared(found, worker, late, timeout, until + VARYING, clock)
        except WorkerTrouble:  # the sweep will say what is the matter with it
            pass
    finally:
        worker.kill()
    return found


@dataclass(frozen=True)
class Ready:
    """A cell that was prepared, with the seconds of its part of a round."""

    key: str
    kind: Kind
    seconds: float


def _prepared(
    found: Probe,
    worker: AnyWorker,
    cells: Sequence[Cell],
    timeout: float,
    until: float,
    clock: Clock,
) -> list[Ready]:
    """The cells that there was time for, up to one that was not ready in it: the worker ends
    then."""
    ready = list[Ready]()
    for cell in cells:
        before = clock()
        if before + found.costs.of(cell) > until:
            continue
        try:
            told = ask(worker, PrepareCell(cell), CellPrepared, min(timeout, until - before))
        except WorkerTrouble:  # the sweep will say what is the matter with it
            if guess(cell) < COMPILE:
                found.late[_kind(cell)] = clock() - before
            return ready
        if isinstance(told, CellPrepared):
            found.costs.saw(cell, clock() - before)
            ready.append(Ready(told.key, _kind(cell), told.seconds * told.repetitions))
            found.rounds.setdefault(_kind(cell), []).append(ready[-1].seconds)
            found.calls.setdefault(_kind(cell), []).append(told.seconds)
    return ready


def _vary(
    found: Probe, worker: AnyWorker, ready: Sequence[Ready], timeout: float, clock: Clock
) -> None:
    """How much the times of cells vary from round to round, those of one kind in turn with others
    of their phase. Raises WorkerTrouble."""
    until = clock() + VARYING
    phases = list(dict.fromkeys(kind[1] for kind in (one.kind for one in ready)))
    for number, phase in enumerate(phases):
        kinds = {one.kind: one for one in reversed(ready) if one.kind[1] is phase}
        share = (until - clock()) / (len(phases) - number)
        timed = _fitting(sorted(kinds.values(), key=lambda one: one.seconds), share)
        found.samples |= _rounds(worker, timed, timeout, clock, clock() + share)
    if found.samples:
        found.noise = median(map(_deviation, found.samples.values()))


def _fitting(ready: Sequence[Ready], seconds: float) -> list[Ready]:
    """The quickest of which enough rounds fit, at least one cell."""
    sums = itertools.accumulate(one.seconds for one in ready)
    return [one for one, whole in zip(ready, sums, strict=True) if SOONEST * whole <= seconds] or [
        *ready[:1]
    ]


def _rounds(
    worker: AnyWorker, timed: Sequence[Ready], timeout: float, clock: Clock, until: float
) -> dict[Kind, list[float]]:
    """Logarithms of seconds of calls, by kind, in the same rounds."""
    by_key = {one.key: one.kind for one in timed}
    taken: dict[Kind, list[float]] = {one.kind: [] for one in timed}
    each = sum(one.seconds for one in timed)
    for _ in range(ROUNDS):
        if clock() + each > until:
            break
        worker.send(TimeRound(tuple(by_key)))
        while isinstance(told := receive(worker, RoundAnswer, timeout), SampleBegun | SampleTaken):
            if isinstance(told, SampleTaken):
                taken[by_key[told.key]].append(math.log(told.wall / (told.pace or 1.0)))
    count = min(map(len, taken.values()), default=0)
    return {kind: seen[:count] for kind, seen in taken.items() if count > 1}


def _in_turn(groups: Sequence[Sequence[Cell]]) -> list[Cell]:
    """One kind of cell after the other: a second one of a kind tells little."""
    seen = set[Kind]()
    first, later = list[Cell](), list[Cell]()
    for cell in sorted((cell for group in groups for cell in group), key=guess):
        kind = _kind(cell)
        (later if kind in seen else first).append(cell)
        seen.add(kind)
    return [*first, *later]
