"""A slot: one worker at a time, and the groups that are measured in it one after another.

An engine has one slot or many: here all groups go through a single one; on a Ray cluster
(``cluster.py``) there are as many slots as it has room for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from rnncheck.bench.group import Group, Limits, Load
from rnncheck.bench.load import usage
from rnncheck.bench.messages import OpenPipeline, PipelineOpened, WorkerFailed
from rnncheck.bench.process import START_UP, AnyWorker, WorkerProcess, ask
from rnncheck.bench.schedule import Schedule
from rnncheck.errors import UserError
from rnncheck.results.cells import Cell, CellResult
from rnncheck.results.variant import Variant
from rnncheck.spec.model import Spec


@dataclass(frozen=True)
class PipelineOpening:
    """What every worker of a sweep is opened with."""

    spec: Spec
    overrides: Sequence[str]

    def started(self, process: WorkerProcess | None = None) -> AnyWorker:
        """A fresh process on this machine, opened: ``process``, where it has begun already. Raises
        UserError as ``open``."""
        worker = process or WorkerProcess()
        self.open(worker, self.spec.path)
        return worker

    def open(self, worker: AnyWorker, path: str) -> None:
        """Build the pipeline in ``worker`` out of the spec at ``path``.

        Raises UserError where it cannot be built; the worker is dead then.
        """
        command = OpenPipeline(
            spec=path,
            overrides=tuple(self.overrides),
            hash=self.spec.hash,
            memory_limit=self.spec.bench.memory_limit,
            threads=self.spec.bench.threads,
        )
        try:
            answer = ask(worker, command, PipelineOpened, max(START_UP, self.spec.verify.timeout))
        except BaseException:
            worker.kill()
            raise
        if isinstance(answer, WorkerFailed):
            worker.kill()
            raise UserError(f"the pipeline cannot be built: {answer.reason}")


@dataclass(frozen=True)
class GroupOrder:
    """A group to be measured; ``reference`` is what its speed-ups are over, ``schedule`` gives it
    its time when it begins."""

    cells: Sequence[Cell]
    reference: Variant
    limits: Limits
    seed: int
    schedule: Schedule


@dataclass(frozen=True)
class GroupOutcome:
    """What came out of an order; ``overhead`` is the time beyond what was timed, over what was
    timed."""

    results: Sequence[CellResult]
    overhead: float


class Engine(Protocol):
    """Where a sweep's workers live."""

    name: str
    slots: int  # groups that are measured at once

    def measure(
        self, orders: Sequence[GroupOrder], opening: PipelineOpening
    ) -> Generator[str | GroupOutcome, None, None]:
        """What is being done, in words, and each order's outcome as it comes; closing it ends the
        workers."""
        ...

    def last_words(self) -> Iterator[str]:
        """What a reader of the results must know about where they were measured."""
        ...


class WorkerSlot:
    """``start`` gives an opened worker, ``load`` the use of the machine that it runs on."""

    def __init__(self, start: Callable[[], AnyWorker], load: Load = usage) -> None:
        self._start, self._load = start, load
        self._worker: AnyWorker | None = None  # the latest, alive or not
        self._alive: AnyWorker | None = None

    def measure(self, order: GroupOrder) -> Generator[str | GroupOutcome, None, None]:
        """One group."""
        group = Group(
            order.cells,
            order.reference,
            order.limits,
            self._opened,
            order.seed,
            self._alive,
            self._load,
            order.schedule.turn(order.cells),
        )
        yield from group.run()
        self._alive = group.worker
        yield GroupOutcome(group.results(), group.overhead)

    def _opened(self) -> AnyWorker:
        self._worker = self._start()
        return self._worker

    def close(self) -> None:
        """End its worker, also in the middle of something."""
        if self._worker is not None:
            self._worker.close()


class LocalEngine:
    """One process at a time, on this machine: what is timed has it for itself."""

    name = "local"
    slots = 1

    def __init__(self, first: WorkerProcess | None = None) -> None:
        """``first`` is a process that has begun already; ``measure`` ends it."""
        self._first = first

    def measure(
        self, orders: Sequence[GroupOrder], opening: PipelineOpening
    ) -> Generator[str | GroupOutcome, None, None]:
        """See ``Engine``. Raises UserError where the spec cannot be built."""

        def start() -> AnyWorker:
            process, self._first = self._first, None
            return opening.started(process)

        try:
            with closing(WorkerSlot(start)) as slot:
                for order in orders:
                    yield from slot.measure(order)
        finally:
            if self._first is not None:
                self._first.kill()

    def last_words(self) -> Iterator[str]:
        """Nothing: the run's environment says it."""
        yield from ()
