"""A whole sweep as a stream of events: group after group, resumable, each finished cell journalled
at once."""

from __future__ import annotations

import datetime
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from rnncheck import __version__
from rnncheck.bench.claims import answers
from rnncheck.bench.group import Limits
from rnncheck.bench.journal import Journal
from rnncheck.bench.plan import groups, reference_of, with_references
from rnncheck.bench.recommend import recommendations
from rnncheck.bench.scale import scalings
from rnncheck.bench.schedule import Schedule, estimate, guess
from rnncheck.bench.worker_slot import (
    Engine,
    GroupOrder,
    GroupOutcome,
    LocalEngine,
    PipelineOpening,
)
from rnncheck.errors import OutputError
from rnncheck.results.cells import Cell, CellResult, Phase
from rnncheck.results.environment import current_environment
from rnncheck.results.events import (
    CellFinished,
    Claimed,
    Event,
    Notice,
    Recommended,
    RunStarted,
    Scaled,
    SweepPlanned,
    SweepProgress,
)
from rnncheck.results.model import SpecRef, Tool
from rnncheck.spec.model import Spec

# Harness overhead beyond which the run says so: all measured sweeps stayed within it, also with
# every core loaded (docs/measurements.md, "How far the numbers of a sweep hold").
HEAVY = 0.02

# What is measured first, since the budget may not do for all: training time is what users pay for,
# and a forward pass alone is asked for where training cannot be measured.
IMPORTANT = (Phase.TRAIN, Phase.ACT, Phase.FORWARD)


@dataclass
class Sweep:
    """The cells of one spec, measured. ``overrides`` are the ``--set`` texts that made the spec,
    for the workers.

    Without a journal nothing can be resumed. The spec's ``bench.budget`` is the wall time of all of
    it, from when it ``began`` on time.monotonic, or from now; where ``seconds`` are given they are
    those of rounds alone.
    """

    spec: Spec
    cells: Sequence[Cell]
    journal: Journal | None
    overrides: Sequence[str] = ()
    done: Mapping[str, CellResult] = field(default_factory=dict)
    axes: Sequence[str] = ()  # along which cost is fitted
    claimed: Sequence[
        Cell
    ] = ()  # the cells behind the documentation's claims, where they are asked
    engine: Engine = field(default_factory=LocalEngine)
    seconds: float | None = None
    first: str = ""  # what to say of an answer that is only a first one
    began: float | None = None
    _begin: float = 0.0
    _estimate: float = 0.0
    _finished: int = 0
    _overheads: list[float] = field(default_factory=list)
    _results: list[CellResult] = field(default_factory=list)

    def events(self) -> Generator[Event, None, None]:
        """Everything that happens. Raises UserError where the spec cannot be built. Closing it ends
        the workers."""
        yield sweep_started(self.spec)
        yield from self.measured(with_references(self.cells, self.spec))
        for found in recommendations(self._results, self.spec.bench):
            first = (self.first,) if self.first else ()
            yield Recommended(replace(found, open=(*found.open, *first)))
        for axis in self.axes:
            yield from map(Scaled, scalings(self._results, axis))
        if self.claimed:
            yield from map(Claimed, answers(self._results, self.claimed))
        yield from self._last_words()

    def measured(self, cells: Sequence[Cell]) -> Generator[Event, None, None]:
        """The same of these cells alone, in their order: no reference is added, nothing
        concluded."""
        self._begin = time.perf_counter()
        self._estimate = estimate(groups(cells), self._budget)
        yield SweepPlanned(tuple(cells), self._estimate)
        for cell in cells:
            if cell.key in self.done:
                yield self._finish(self.done[cell.key])
        yield from self._measured(cells)
        order = {cell.key: index for index, cell in enumerate(cells)}
        self._results.sort(key=lambda result: order[result.cell.key])

    @property
    def _budget(self) -> float:
        return self.spec.bench.budget if self.seconds is None else self.seconds

    def _measured(self, cells: Sequence[Cell]) -> Iterator[Event]:
        waiting = [todo for group in groups(cells) if (todo := self._left_of(group))]
        waiting.sort(key=lambda group: IMPORTANT.index(group[0].phase))
        whole, slots = self.seconds is None, self.engine.slots
        schedule = Schedule(self._budget, waiting, whole=whole, slots=slots, began=self.began)
        orders = [self._order(group, schedule) for group in waiting]
        opening = PipelineOpening(self.spec, self.overrides)
        with closing(self.engine.measure(orders, opening)) as stream:
            for found in stream:
                if isinstance(found, GroupOutcome):
                    yield from self._came(found)
                else:
                    yield SweepProgress(
                        found, self._finished, len(cells), self._remaining(len(cells))
                    )

    def _left_of(self, cells: Sequence[Cell]) -> list[Cell]:
        """What is left of a group, with its reference; nothing where that is all. The reference
        goes first, and what is soon prepared before what is not: there may be no time for all."""
        todo = [cell for cell in cells if cell.key not in self.done]
        reference = reference_of(self.spec)
        again = [cell for cell in cells if cell.variant == reference and cell not in todo]
        in_turn = sorted([*again, *todo], key=lambda c: (c.variant != reference, guess(c)))
        return in_turn if todo else []

    def _order(self, cells: Sequence[Cell], schedule: Schedule) -> GroupOrder:
        bench = self.spec.bench
        limits = Limits(bench.interval, bench.timeout, self._choosing)
        return GroupOrder(cells, reference_of(self.spec), limits, self.spec.seed, schedule)

    @property
    def _choosing(self) -> bool:
        """Whether it is the choice that is asked for, and no time for itself."""
        asked = self.spec.bench.goal == "choice" and self.seconds is None
        return asked and not (self.axes or self.claimed)

    def _came(self, found: GroupOutcome) -> Iterator[Event]:
        """Each result on the disk, where that takes it, before it is told."""
        self._overheads.append(found.overhead)
        for result in found.results:
            if result.cell.key not in self.done:
                yield from self._journalled(result)
                yield self._finish(result)

    def _journalled(self, result: CellResult) -> Iterator[Notice]:
        """A journal that cannot be written, on a full disk, costs the resuming and not the
        sweep."""
        try:
            if self.journal is not None:
                self.journal.add(result)
        except OutputError as error:
            self.journal = None
            lost = "`rnncheck bench --resume` would measure again what comes from here on"
            yield Notice(f"{error.place}: {error.message}; {lost}")

    def _finish(self, result: CellResult) -> CellFinished:
        self._finished += 1
        self._results.append(result)
        return CellFinished(result)

    def _remaining(self, total: int) -> float:
        measured = self._finished - len(self.done)
        left = total - self._finished
        if measured <= 0:
            return self._estimate * left / total
        return (time.perf_counter() - self._begin) / measured * left

    def _last_words(self) -> Iterator[Event]:
        yield from map(Notice, self.engine.last_words())
        worst = max(self._overheads, default=0.0)
        if worst > HEAVY:
            yield Notice(f"up to {worst:.1%} of the measured time went into measuring")


def sweep_started(spec: Spec) -> RunStarted:
    """The first event."""
    return RunStarted(
        tool=Tool("rnncheck", __version__),
        command="bench",
        spec=SpecRef(spec.path, spec.name, spec.hash),
        environment=current_environment(spec.device),
        seed=spec.seed,
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        checks=(),
    )
