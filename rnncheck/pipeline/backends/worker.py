"""The worker process: ``python -m rnncheck.pipeline.backends.worker FOLDER`` answers the request in
FOLDER.

It ends by itself when its standard input closes, so that it never outlives the process that started
it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
import warnings
from pathlib import Path

from rnncheck.pipeline.backends.interpreter import Moved, adapt, tiled
from rnncheck.pipeline.backends.job import FAILED, Job, Request, save_answer
from rnncheck.supervisor.child import end_at_once


def main(folder: Path) -> None:
    """Answer every job; what prevents all of them is written down once."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    request = Request.load(folder)
    try:
        _prepare(request)
    except Moved as error:
        (folder / FAILED).write_text(str(error), encoding="utf-8")
        return
    for number, job in enumerate(request.jobs):
        with _path(job):
            save_answer(job.run(), folder, number)


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock would abort the interpreter at its end
        pass
    os.kill(os.getpid(), signal.SIGKILL)  # a kernel that hangs in C hears nothing else


def _prepare(request: Request) -> None:
    warnings.simplefilter("ignore")
    for folder, name in request.imports:
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            importlib.import_module(name)
        except Exception as error:  # a user's module may raise anything
            raise Moved(f"{name} cannot be imported there: {type(error).__name__}") from error
    if request.interpret:
        adapt()


def _path(job: Job) -> contextlib.AbstractContextManager[None]:
    return tiled(on=True) if job.tiled else contextlib.nullcontext()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    end_at_once()  # who asked waits for the end
