"""The wall time of a sweep, and what each group of cells gets of it.

Starting workers, compiling, judging and measuring all count. What a cell takes is guessed from the
constants below, which were measured, and then from what the cells before it took.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean, median

from rnncheck.results.cells import Cell, Phase
from rnncheck.results.variant import Variant

Clock = Callable[[], float]  # seconds, of which only differences count

# Seconds on 2 cores (torch 2.13.0, TorchRL 0.14.1), the first guess: what a sweep sees takes their
# place. PREPARE is rounded up from one run of the cells of fixtures/specs/cartpole_dqn.yaml on a
# nearly idle machine (1 to 1.6 s for eager pad), START from the CPU time of workers (3.2 to 3.3 s,
# of which torch and TorchRL are 2.7).
START = 3.5  # of a worker: imports and the pipeline
PREPARE = 1.0  # of an eager cell: first calls, warm-up, memory, accuracy
TRAINED = 0.5  # more where it is trained: the loss, and the gradients of the oracle
READY = 0.5  # of an eager cell without memory and accuracy: 0.45 s of CPU, rounded up
COMPILE = 14.0  # of a compilation. Chosen above the 4 to 12 that were measured for an LSTM
# Of a cell's rounds: ``group.SETTLED`` and some more.
MEASURE = 4.0
# Of the fewest rounds of a cell whose calls were not timed yet. Chosen: ten samples of 0.03 s.
FEWEST = 0.3
ENDING = 0.3  # of the worker's end. Chosen
# Of a budget that is too small for judging numbers, which takes up to a second a cell: all that the
# start leaves goes into rounds. Chosen: about twice START.
SMALL = 10.0


class Costs:
    """Seconds that it takes to prepare cells: guessed, and learned while the sweep goes on."""

    def __init__(self, *, judging: bool = True) -> None:
        """``judging``: its numbers are judged then, too."""
        self._judging = judging
        self._seen: dict[tuple[str, Phase], list[float]] = {}
        self._off: list[float] = []  # what was seen over what was guessed
        self._starts: list[float] = []  # of workers

    @property
    def start(self) -> float:
        """To start a worker: as those took that were started, else the guess."""
        return max([START, *self._starts])

    def started(self, seconds: float) -> None:
        """A worker took so long."""
        self._starts.append(seconds)

    def of(self, cell: Cell) -> float:
        """To prepare ``cell``: as the same variant took in another group, else the guess, scaled by
        how far the guesses were off: one slow backend says little of the others."""
        if seen := self._seen.get((cell.variant.label, cell.phase)):
            return median(seen)
        first = guess(cell, judging=self._judging)
        return first * (geometric_mean(self._off) if self._off else 1.0)

    def saw(self, cell: Cell, seconds: float) -> None:
        """It took so long."""
        self._seen.setdefault((cell.variant.label, cell.phase), []).append(seconds)
        self._off.append(max(seconds, 1e-3) / guess(cell, judging=self._judging))

    def least(self, cells: Sequence[Cell]) -> float:
        """Of a group from which each cell is measured as briefly as it may be."""
        return sum(self.of(cell) + FEWEST for cell in cells)

    def wanted(self, cells: Sequence[Cell]) -> float:
        """Of a group that has the time it likes."""
        return sum(self.of(cell) + MEASURE for cell in cells)


def guess(cell: Cell, *, judging: bool = True) -> float:
    """Seconds to prepare ``cell``, before anything was seen."""
    variant = cell.variant
    compiling = isinstance(variant, Variant) and variant.compile != "eager"
    trained = TRAINED if cell.phase is Phase.TRAIN else 0.0
    return (PREPARE + trained if judging else READY) + (COMPILE if compiling else 0.0)


@dataclass
class Turn:
    """The time of one group, as points of the clock.

    No round begins that would end after ``until``, no cell is prepared that would not be ready by
    ``ready``, and nothing is waited for beyond ``end``. Where ``rounds`` is given it is the seconds
    of rounds alone: all else takes as long as it takes.
    """

    clock: Clock = time.monotonic
    until: float = float("inf")
    ready: float = float("inf")
    end: float = float("inf")
    rounds: float | None = None
    costs: Costs = field(default_factory=Costs)
    last: bool = False  # no group comes after it
    judging: bool = True  # there is time to judge numbers

    def begin_rounds(self, fewest: float) -> None:
        """All that can be prepared is; the fewest rounds of it take so many seconds, and have them
        where preparing took what was meant for rounds."""
        now = self.clock()
        if self.rounds is not None:
            self.until = now + self.rounds
        else:
            self.until = min(self.end, max(self.until, now + fewest))

    @property
    def whole(self) -> bool:
        """Whether all of the wall time counts."""
        return self.rounds is None

    def left(self, point: float) -> float:
        """Seconds up to a point of the clock, 0 where it is past."""
        return max(0.0, point - self.clock())


class Schedule:
    """Gives each group its turn out of ``budget`` seconds, which ``began`` on the clock, now where
    that is not said. Threads may share it.

    A group gets a share of what is left by what it would like to have, at least what the fewest
    rounds of all its cells take. With ``slots`` groups at once each has so many times the share.
    """

    def __init__(
        self,
        budget: float,
        groups: Sequence[Sequence[Cell]],
        *,
        whole: bool = True,
        slots: int = 1,
        clock: Clock = time.monotonic,
        began: float | None = None,
    ) -> None:
        self._judging = not whole or budget >= SMALL
        self.budget, self.costs, self.clock = budget, Costs(judging=self._judging), clock
        self._whole, self._slots = whole, slots
        self._waiting = [list(group) for group in groups]
        self._cells = sum(map(len, self._waiting))
        self._end = (clock() if began is None else began) + budget
        self._lock = threading.Lock()

    def turn(self, group: Sequence[Cell]) -> Turn:
        """The time of ``group``, one of those that are waiting."""
        with self._lock:
            self._waiting.remove(list(group))
            last = not self._waiting
            if not self._whole:
                rounds = self.budget * len(group) / self._cells
                return Turn(self.clock, rounds=rounds, costs=self.costs, last=last)
            return self._share(group, last=last)

    def _share(self, group: Sequence[Cell], *, last: bool) -> Turn:
        now, end = self.clock(), self._end - ENDING
        left = max(0.0, end - now)
        mine = self.costs.wanted(group)
        others = sum(map(self.costs.wanted, self._waiting))
        share = left * min(1.0, self._slots * mine / (mine + others))
        share = min(left, max(share, self.costs.least(group)))
        spare = left - sum(map(self.costs.least, self._waiting)) / self._slots
        return Turn(
            self.clock, until=now + share, ready=now + max(share, spare), end=end,
            costs=self.costs, last=last, judging=self._judging,
        )  # fmt: skip


def estimate(cells_of_groups: Sequence[Sequence[Cell]], budget: float) -> float:
    """Seconds of a whole sweep by the constants alone, at most its ``budget``; ``probe`` knows
    better."""
    wanted = sum(guess(cell) + MEASURE for group in cells_of_groups for cell in group)
    return min(budget, START + wanted + ENDING)
