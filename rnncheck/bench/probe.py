"""How long a sweep will take, by a short probe: one worker, some of the cells, nothing kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from rnncheck.bench.messages import CellPrepared, PrepareCell
from rnncheck.bench.process import AnyWorker, WorkerTrouble, ask
from rnncheck.bench.schedule import ENDING, START, Clock, Costs, guess
from rnncheck.results.cells import Cell, Phase

PROBE = 8.0  # seconds of cells, after the start. Chosen: a person still waits for it
# Rounds until a choice is clear, by how far the calls are apart: with two to four variants whose
# rounds vary by 5 %, simulated as in tests/numerics/test_sequential.py, twice as slow takes 8 to
# 16, and what is alike some 100.
APART, CLEAR_ROUNDS, ALIKE_ROUNDS = 1.15, 10, 100
# Until an interval of ±2 % is reached with such rounds; at least ``group.SETTLED`` seconds.
TIMES_ROUNDS, SETTLED = 40, 3.0


@dataclass
class Probe:
    """What was seen: seconds of the start, and of each cell that there was time for."""

    start: float = START
    costs: Costs = field(default_factory=Costs)
    rounds: dict[tuple[str, Phase], list[float]] = field(default_factory=dict)

    def estimate(self, groups: Sequence[Sequence[Cell]], budget: float, *, choosing: bool) -> float:
        """Seconds of the sweep, at most ``budget``."""
        found = sum(self._group(group, choosing=choosing) for group in groups)
        return min(budget, self.start + found + ENDING)

    def _group(self, cells: Sequence[Cell], *, choosing: bool) -> float:
        calls = [self._round(cell) for cell in cells]
        preparing = sum(map(self.costs.of, cells))
        if not choosing or len(cells) == 1:
            return preparing + max(SETTLED, TIMES_ROUNDS * sum(calls))
        fastest = min(calls)
        alike = [one for one in calls if one <= APART * fastest]
        count = CLEAR_ROUNDS if len(alike) == 1 else ALIKE_ROUNDS
        apart = sum(calls) - sum(alike)
        return preparing + CLEAR_ROUNDS * apart + count * sum(alike)

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
    are over. Raises UserError where the pipeline cannot be built."""
    begin = clock()
    worker = open_worker()
    try:
        found = Probe(clock() - begin)
        until = clock() + seconds
        for cell in _in_turn(groups):
            before = clock()
            if before + found.costs.of(cell) > until:
                continue
            try:
                told = ask(worker, PrepareCell(cell), CellPrepared, min(timeout, until - before))
            except WorkerTrouble:  # the sweep will say what is the matter with it
                break
            if isinstance(told, CellPrepared):
                found.costs.saw(cell, clock() - before)
                seen = found.rounds.setdefault((cell.variant.label, cell.phase), [])
                seen.append(told.seconds * told.repetitions)
    finally:
        worker.kill()
    return found


def _in_turn(groups: Sequence[Sequence[Cell]]) -> list[Cell]:
    """One kind of cell after the other: a second one of a kind tells little."""
    seen: set[tuple[str, Phase]] = set()
    first, later = list[Cell](), list[Cell]()
    for cell in sorted((cell for group in groups for cell in group), key=guess):
        kind = (cell.variant.label, cell.phase)
        (later if kind in seen else first).append(cell)
        seen.add(kind)
    return [*first, *later]
