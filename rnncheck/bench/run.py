"""A whole sweep as a stream of events: group after group, resumable, each finished cell journalled at once."""

from __future__ import annotations

import datetime
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rnncheck import __version__
from rnncheck.bench.claims import answers
from rnncheck.bench.group import Group, Limits
from rnncheck.bench.journal import Journal
from rnncheck.bench.plan import estimate, groups, reference_of, with_references
from rnncheck.bench.process import WorkerProcess
from rnncheck.bench.recommend import recommendations
from rnncheck.bench.scale import scalings
from rnncheck.errors import UserError
from rnncheck.results.cells import Cell, CellResult
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

START_UP = 120.0  # seconds that a worker may take to import and to build the pipeline, at least
HEAVY = 0.02  # harness overhead beyond which the run says so


@dataclass
class Sweep:
    """The cells of one spec, measured. ``overrides`` are the ``--set`` texts that made the spec, for the workers."""

    spec: Spec
    cells: Sequence[Cell]
    journal: Journal
    overrides: Sequence[str] = ()
    done: Mapping[str, CellResult] = field(default_factory=dict)
    axes: Sequence[str] = ()  # along which cost is fitted
    claimed: Sequence[
        Cell
    ] = ()  # the cells behind the documentation's claims, where they are asked
    _begin: float = 0.0
    _finished: int = 0
    _overheads: list[float] = field(default_factory=list)
    _worker: WorkerProcess | None = None
    _results: list[CellResult] = field(default_factory=list)

    def events(self) -> Generator[Event, None, None]:
        """Everything that happens. Raises UserError where the spec cannot be built. Closing it ends the workers."""
        self._begin = time.perf_counter()
        cells = with_references(self.cells, self.spec)
        yield started(self.spec)
        yield SweepPlanned(tuple(cells), estimate(cells, self.spec.bench.budget))
        try:
            for group in groups(cells):
                yield from self._group(group, len(cells))
        finally:
            if self._worker is not None:
                self._worker.close()
        for found in recommendations(self._results, self.spec.bench):
            yield Recommended(found)
        for axis in self.axes:
            yield from map(Scaled, scalings(self._results, axis))
        if self.claimed:
            yield from map(Claimed, answers(self._results, self.claimed))
        yield from self._last_words()

    def _group(self, cells: list[Cell], total: int) -> Iterator[Event]:
        for cell in cells:
            if cell.key in self.done:
                yield self._finish(self.done[cell.key])
        todo = [cell for cell in cells if cell.key not in self.done]
        if not todo:
            return
        label = reference_of(self.spec).label
        again = [cell for cell in cells if cell.variant == label and cell not in todo]
        limits = self._limits(len(todo), total)
        group = Group([*todo, *again], label, limits, self._open, self.spec.seed, self._worker)
        for doing in group.run():
            self._worker = group.worker
            yield SweepProgress(doing, self._finished, total, self._remaining(total))
        self._worker = group.worker
        self._overheads.append(group.overhead)
        for result in group.results():
            if result.cell in todo:
                self.journal.add(result)
                yield self._finish(result)

    def _finish(self, result: CellResult) -> CellFinished:
        self._finished += 1
        self._results.append(result)
        return CellFinished(result)

    def _limits(self, count: int, total: int) -> Limits:
        bench = self.spec.bench
        return Limits(bench.interval, bench.timeout, bench.budget * count / total)

    def _open(self) -> WorkerProcess:
        worker = WorkerProcess()
        try:
            answer = worker.ask(
                "open",
                max(START_UP, self.spec.verify.timeout),
                spec=self.spec.path,
                overrides=list(self.overrides),
                hash=self.spec.hash,
                memory_limit=self.spec.bench.memory_limit,
            )
        except BaseException:
            worker.kill()
            raise
        if answer["is"] == "failed":
            worker.kill()
            raise UserError(f"the pipeline cannot be built: {answer['reason']}")
        return worker

    def _remaining(self, total: int) -> float:
        measured = self._finished - len(self.done)
        left = total - self._finished
        if measured <= 0:
            return estimate(self.cells, self.spec.bench.budget) * left / total
        return (time.perf_counter() - self._begin) / measured * left

    def _last_words(self) -> Iterator[Event]:
        worst = max(self._overheads, default=0.0)
        if worst > HEAVY:
            yield Notice(f"up to {worst:.1%} of the measured time went into measuring")


def started(spec: Spec) -> RunStarted:
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
