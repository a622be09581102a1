"""The process that cells run in: ``python -m rnncheck.bench.worker``.

It reads one JSON object a line from standard input and answers on what was standard output when it started. Whatever
the user's code prints goes to standard error.

    {"do": "open", "spec": PATH, "overrides": [...], "hash": HASH or null, "memory_limit": MiB or null,
     "threads": N or null}  ->  {"is": "open"}
    {"do": "prepare", "cell": {...}}      ->  {"is": "prepared", ...}  or  {"is": "failed", "status": ..., "reason": ...}
    {"do": "round", "keys": [...], "repetitions": N or null}
                                          ->  {"is": "begin", "key": ...} and {"is": "sample", ...} for each, {"is": "end"}
    {"do": "drop", "key": KEY}            ->  {"is": "dropped"}
    {"do": "about"}                       ->  {"is": "about", "files": [...], "environment": {...}}
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import IO, Any

from rnncheck.results.cells import Cell, Status

MIB = 2**20
SLOW = 0.5  # seconds of a call from which its memory is measured once


class Worker:
    """Holds the prepared cells of one process."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._scope = ExitStack()
        self._ground: Any = None
        self._prepared: dict[str, Any] = {}
        self._warm: dict[str, Any] = {}

    def serve(self, lines: IO[str]) -> None:
        """Answer until the input ends."""
        with self._scope:
            for line in lines:
                command = json.loads(line)
                try:
                    getattr(self, f"do_{command.pop('do')}")(**command)
                except Exception as error:
                    self._fail(error)

    def _say(self, kind: str, **fields: Any) -> None:
        from rnncheck.results.plain import plain

        self._out.write(json.dumps({"is": kind, **plain(fields)}) + "\n")
        self._out.flush()

    def _fail(self, error: Exception) -> None:
        traceback.print_exc()
        self._say("failed", status=_status(error), reason=_reason(error))

    def do_open(
        self,
        spec: str,
        overrides: list[str],
        hash: str | None,
        memory_limit: int | None,
        threads: int | None = None,
    ) -> None:
        """Build the pipeline. Without a hash any content of the spec will do, without threads torch's own number."""
        from pathlib import Path

        from rnncheck.errors import SpecError
        from rnncheck.pipeline.guard.process import calm
        from rnncheck.pipeline.workload.ground import Ground
        from rnncheck.spec.load import load_spec

        loaded = load_spec(Path(spec), overrides)
        if hash is not None and loaded.hash != hash:
            raise SpecError("the spec file was changed while the sweep ran")
        self._scope.enter_context(calm(checking=False, threads=threads))
        self._ground = self._scope.enter_context(Ground(loaded))
        if memory_limit is not None:
            _limit(memory_limit * MIB)
        self._say("open", threads=self._ground.threads)

    def do_prepare(self, cell: dict[str, Any], judge: bool = True) -> None:
        """Build a cell's call, run it for the first time and warm it up; ``judge`` its numbers, measure its memory."""
        from rnncheck.bench.memory import TIMES, cpu_memory
        from rnncheck.bench.timer import warm_up

        wanted = _cell(cell)
        prepared = self._ground.prepare(wanted)
        warm = warm_up(prepared.call)
        self._prepared[wanted.key], self._warm[wanted.key] = prepared, warm
        times = 1 if warm.seconds >= SLOW else TIMES
        memory = (prepared.memory() or cpu_memory(prepared.call, times)) if judge else None
        self._say(
            "prepared",
            key=wanted.key,
            first_call=warm.first,
            compile=max(0.0, warm.first - warm.seconds) if prepared.compiled else None,
            seconds=warm.seconds,
            repetitions=warm.repetitions,
            steady=warm.steady,
            accuracy=prepared.accuracy() if judge else None,
            memory=memory,
            engine=prepared.engine,
        )

    def do_round(self, keys: list[str], repetitions: int | None = None) -> None:
        """One sample of each, in the given order; over so many calls, or as many as the warm-up chose."""
        from rnncheck.bench.timer import sample

        before = time.process_time()
        for key in keys:
            self._say("begin", key=key)
            prepared, chosen = self._prepared[key], self._warm[key].repetitions
            wall, cpu = (prepared.timed or sample)(prepared.call, repetitions or chosen)
            self._say("sample", key=key, wall=wall, cpu=cpu)
        self._say("end", cpu=time.process_time() - before)

    def do_drop(self, key: str) -> None:
        """Forget a cell: its tensors are freed."""
        import gc

        self._prepared.pop(key, None)
        gc.collect()
        self._say("dropped")

    def do_about(self) -> None:
        """What it runs: the user's own modules that were imported, by file, and the libraries."""
        from rnncheck.pipeline.guard.user_frames import is_user_file
        from rnncheck.results.environment import current_environment

        # not getattr: what stands in sys.modules may import or raise when it is asked
        about = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
        files = {file for one in about if isinstance(file := one.get("__file__"), str)}
        environment = asdict(current_environment(self._ground.spec.device))
        self._say("about", files=sorted(filter(is_user_file, files)), environment=environment)


def _cell(data: dict[str, Any]) -> Cell:
    from pydantic import TypeAdapter

    found: Cell = TypeAdapter(Cell).validate_python(data)
    return found


def cell_fields(cell: Cell) -> dict[str, Any]:
    """What ``prepare`` takes."""
    return asdict(cell)


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


def _reason(error: Exception) -> str:
    from rnncheck.errors import RnncheckError
    from rnncheck.numerics.kernels import missing_kernel

    if missing := missing_kernel(str(error)):
        return missing
    first = str(error).strip().splitlines()[:1]
    said = first[0] if first else ""
    return said if isinstance(error, RnncheckError) else f"{type(error).__name__}: {said}"


def main() -> None:
    """Keep the answers apart from what anything else prints."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    Worker(answers).serve(sys.stdin)


if __name__ == "__main__":
    main()
