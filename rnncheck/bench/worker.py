"""The process that cells run in: ``python -m rnncheck.bench.worker``.

It reads one command a line from standard input (``messages``) and answers on what was standard
output when it started. Whatever the user's code prints goes to standard error.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cached_property
from typing import IO, Any

from rnncheck.bench.messages import (
    LAST,
    CellDropped,
    CellPrepared,
    Command,
    DescribePipeline,
    DropCell,
    OpenPipeline,
    PipelineContents,
    PipelineOpened,
    PrepareCell,
    RoundEnded,
    SampleBegun,
    SampleTaken,
    TimeRound,
    WorkerAnswer,
    WorkerFailed,
    decode_command,
    encode_answer,
)
from rnncheck.bench.start import AHEAD
from rnncheck.errors import RnncheckError
from rnncheck.importing import import_ahead
from rnncheck.numerics.kernels import reason_of
from rnncheck.results.cells import MIB, Status

# Seconds of a call from which its memory is measured once. Chosen: ``memory.TIMES`` take 1.5 s
# then.
SLOW = 0.5


class CellWorker:
    """Holds the prepared cells of one process."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._scope = ExitStack()
        self._pipeline: Any = None
        self._prepared: dict[str, Any] = {}
        self._warm: dict[str, Any] = {}

    @cached_property
    def _pace(self) -> Callable[[], float]:
        from rnncheck.bench.pace import Pace

        return Pace()

    def serve(self, lines: IO[str]) -> None:
        """Answer until there is no further command."""
        with self._scope:
            for line in iter(lines.readline, ""):
                if line == LAST:
                    return
                try:
                    self._obey(decode_command(line))
                except Exception as error:
                    traceback.print_exc()
                    self._say(WorkerFailed(_status(error), reason_of(error)))

    def _obey(self, command: Command) -> None:
        match command:
            case OpenPipeline():
                self._open(command)
            case PrepareCell():
                self._prepare(command)
            case TimeRound():
                self._time(command)
            case DropCell():
                self._drop(command)
            case DescribePipeline():
                self._describe()

    def _say(self, answer: WorkerAnswer) -> None:
        self._out.write(encode_answer(answer))
        if not isinstance(answer, SampleTaken):  # another answer follows at once
            self._out.flush()

    def _open(self, command: OpenPipeline) -> None:
        import gc
        from pathlib import Path

        from rnncheck.errors import SpecError
        from rnncheck.pipeline.guard.process import calm
        from rnncheck.pipeline.workload.prepared_pipeline import PreparedPipeline
        from rnncheck.spec.load import load_spec

        loaded = load_spec(Path(command.spec), list(command.overrides))
        if command.hash is not None and loaded.hash != command.hash:
            raise SpecError("the spec file was changed while the sweep ran")
        self._scope.enter_context(calm(checking=False, threads=command.threads))
        self._pipeline = self._scope.enter_context(PreparedPipeline(loaded))
        gc.freeze()  # a collection walks what cells hold, and not all that was imported
        if command.memory_limit is not None:
            _limit(command.memory_limit * MIB)
        self._say(PipelineOpened(self._pipeline.threads))

    def _prepare(self, command: PrepareCell) -> None:
        from rnncheck.bench.memory import TIMES, cpu_memory
        from rnncheck.bench.timer import warm_up

        key, judge = command.cell.key, command.judge
        prepared = self._pipeline.prepare(command.cell)
        warm = warm_up(prepared.call)
        self._prepared[key], self._warm[key] = prepared, warm
        times = 1 if warm.seconds >= SLOW else TIMES
        memory = (prepared.memory() or cpu_memory(prepared.call, times)) if judge else None
        answer = CellPrepared(
            key=key,
            first_call=warm.first,
            compile=max(0.0, warm.first - warm.seconds) if prepared.compiled else None,
            seconds=warm.seconds,
            repetitions=warm.repetitions,
            steady=warm.steady,
            accuracy=prepared.accuracy() if judge else None,
            memory=memory,
            engine=prepared.engine,
        )
        self._say(answer)

    def _time(self, command: TimeRound) -> None:
        from rnncheck.bench.timer import sample

        before, pace = time.process_time(), self._pace()
        for key in command.keys:
            if key not in self._prepared:
                raise RnncheckError(f"no cell {key!r} was prepared here")
            self._say(SampleBegun(key))
            prepared, chosen = self._prepared[key], self._warm[key].repetitions
            take = prepared.timed or sample
            wall, cpu, waited = take(prepared.call, command.repetitions or chosen)
            earlier, pace = pace, self._pace()
            beside = 0.0 if prepared.timed else (earlier + pace) / 2
            self._say(SampleTaken(key, wall, cpu, waited, beside))
        self._say(RoundEnded(time.process_time() - before))

    def _drop(self, command: DropCell) -> None:
        import gc

        self._prepared.pop(command.key, None)
        gc.collect()
        self._say(CellDropped())

    def _describe(self) -> None:
        from rnncheck.pipeline.guard.user_frames import is_user_file
        from rnncheck.results.environment import current_environment

        # not getattr: what stands in sys.modules may import or raise when it is asked
        about = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
        files = {file for one in about if isinstance(file := one.get("__file__"), str)}
        environment = current_environment(self._pipeline.spec.device)
        self._say(PipelineContents(tuple(sorted(filter(is_user_file, files))), environment))


def _limit(size: int) -> None:
    """Let allocations beyond ``size`` bytes, above what the process holds now, fail."""
    import resource

    held = 0
    with suppress(OSError), open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123
        held = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (held + size, resource.RLIM_INFINITY))


OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "Cannot allocate memory", "bad_alloc")


def _status(error: Exception) -> Status:
    from rnncheck.numerics.kernels import missing_kernel
    from rnncheck.pipeline.workload import CannotRun

    if isinstance(error, CannotRun) or missing_kernel(str(error)):
        return Status.CANNOT
    text = f"{type(error).__name__}: {error}"
    full = isinstance(error, MemoryError) or any(part in text for part in OUT_OF_MEMORY)
    return Status.OOM if full else Status.FAILED


def main() -> None:
    """Keep the answers apart from what anything else prints; end without taking the interpreter and
    torch apart, which takes up to a second."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if AHEAD in sys.argv[1:]:
        import_ahead("rnncheck.pipeline.workload.prepared_pipeline")
    CellWorker(answers).serve(sys.stdin)
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
