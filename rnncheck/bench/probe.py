"""How long a sweep will take, by a short probe: one worker, some of the cells, nothing kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

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
from rnncheck.results.cells import Cell, Phase

PROBE = 8.0  # seconds of cells, after the start. Chosen: a person still waits for it
# That say how much the times of a cell vary, and so many seconds at most: of 40 a deviation is
# known to some 15 %.
ROUNDS, VARYING = 40, 2.0
# Half of a median's interval in standard deviations over the root of the rounds: 1.25 for a median,
# times what a fixed interval takes, and one that holds at every look with some 50 to 200 rounds. A
# group waits for the last of its cells: 1.15 is about what the widest of three intervals adds.
FIXED, RUNNING = 1.15 * 1.25 * 1.96, 1.25 * 3.7
SOONEST = 10  # rounds: no choice is clear before
MAD = 1.48  # standard deviations of a normal distribution in a median absolute deviation


@dataclass
class Probe:
    """What was seen: seconds of the start and of each cell that there was time for, and by how
    much, as a logarithm, a cell's times vary."""

    start: float = START
    costs: Costs = field(default_factory=Costs)
    rounds: dict[tuple[str, Phase], list[float]] = field(default_factory=dict)
    noise: float = 0.02

    def estimate(
        self, groups: Sequence[Sequence[Cell]], budget: float, interval: float, *, choosing: bool
    ) -> float:
        """Seconds of the sweep, at most ``budget``."""
        found = sum(self._group(group, interval, choosing=choosing) for group in groups)
        return min(budget, self.start + found + ENDING)

    def _group(self, cells: Sequence[Cell], interval: float, *, choosing: bool) -> float:
        calls = [self._round(cell) for cell in cells]
        preparing = sum(map(self.costs.of, cells))
        if not choosing or len(cells) == 1:
            needed = max(MIN_ROUNDS, (FIXED * self.noise / interval) ** 2)
            return preparing + max(SETTLED, needed * sum(calls))
        counts = [self._until_clear(math.log(call / min(calls))) for call in calls]
        counts[calls.index(min(calls))] = counts[0] = max(counts)  # the fastest and the reference
        return preparing + sum(n * call for n, call in zip(counts, calls, strict=True))

    def _until_clear(self, apart: float) -> float:
        """Rounds until two cells whose times are ``apart`` (a logarithm) are told apart, or known
        to be about as fast: see ``pairs.settled``. The fastest is apart from itself by nothing."""
        if not apart:
            return SOONEST
        half = max(math.sqrt(max(0.0, apart**2 - LEAST**2)), CLOSE * LEAST)
        return max(SOONEST, (RUNNING * math.sqrt(2) * self.noise / half) ** 2)

    def _round(self, cell: Cell) -> float:
        """Seconds of its part of a round: as the same variant took, or as any."""
        known = self.rounds.get((cell.variant.label, cell.phase))
        known = known or [one for seen in self.rounds.values() for one in seen]
        return median(known) if known else 0.03


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
            keys = _prepared(found, worker, soon, timeout, until, clock)
            _vary(found, worker, keys, timeout, clock)
            late = [cell for cell in cells if cell not in soon]  # one of them may end the worker
            _prepared(found, worker, late, timeout, until + VARYING, clock)
        except WorkerTrouble:  # the sweep will say what is the matter with it
            pass
    finally:
        worker.kill()
    return found


def _prepared(
    found: Probe,
    worker: AnyWorker,
    cells: Sequence[Cell],
    timeout: float,
    until: float,
    clock: Clock,
) -> dict[str, float]:
    """The cells that there was time for, by key, with the seconds of their part of a round. Raises
    WorkerTrouble."""
    keys: dict[str, float] = {}
    for cell in cells:
        before = clock()
        if before + found.costs.of(cell) > until:
            continue
        told = ask(worker, PrepareCell(cell), CellPrepared, min(timeout, until - before))
        if isinstance(told, CellPrepared):
            found.costs.saw(cell, clock() - before)
            seen = found.rounds.setdefault((cell.variant.label, cell.phase), [])
            seen.append(told.seconds * told.repetitions)
            keys[told.key] = seen[-1]
    return keys


def _vary(
    found: Probe, worker: AnyWorker, seconds: dict[str, float], timeout: float, clock: Clock
) -> None:
    """How much the times of the soonest cell vary from round to round. Raises WorkerTrouble."""
    if not seconds:
        return
    key, until, taken = min(seconds, key=lambda key: seconds[key]), clock() + VARYING, list[float]()
    while len(taken) < ROUNDS and clock() + seconds[key] <= until:
        worker.send(TimeRound((key,)))
        while isinstance(told := receive(worker, RoundAnswer, timeout), SampleBegun | SampleTaken):
            if isinstance(told, SampleTaken):
                taken.append(math.log(told.wall))
    if len(taken) > 1:
        middle = median(taken)
        found.noise = MAD * median(abs(one - middle) for one in taken)


def _in_turn(groups: Sequence[Sequence[Cell]]) -> list[Cell]:
    """One kind of cell after the other: a second one of a kind tells little."""
    seen: set[tuple[str, Phase]] = set()
    first, later = list[Cell](), list[Cell]()
    for cell in sorted((cell for group in groups for cell in group), key=guess):
        kind = (cell.variant.label, cell.phase)
        (later if kind in seen else first).append(cell)
        seen.add(kind)
    return [*first, *later]
