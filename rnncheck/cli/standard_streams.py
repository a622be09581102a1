"""The standard streams of the process: closed, full or without a reader, they end no run.

A stream that takes no more drops what comes; what went wrong is told once, at the end. So a run
ends with its verdict, is stored, and user code that prints does not fail because of the shell's
pipe. The exit code of a command that judges stays its verdict's. The others exit 0 where the reader
left (``| head``), as well-behaved tools do, and 2 where the disk is full.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, TextIO

from rnncheck.results.exit_codes import ExitCode

_LEFT = (errno.EPIPE, errno.ECONNRESET)  # the reader is gone
_JUDGING = ("verify", "gate", "bench", "selftest")  # commands whose exit code is a verdict


class _Tolerant(io.FileIO):
    """A descriptor of the process that drops what it cannot write; ``trouble`` is why."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.trouble: OSError | None = None

    def write(self, data: Any, /) -> int:
        """All of ``data``, as far as anyone can tell."""
        left = memoryview(data).cast("B")
        total = len(left)
        while left and self.trouble is None:
            try:
                written = super().write(left)
            except OSError as error:
                self.trouble = error
            else:
                if written is None:  # a pipe that does not block, and is full
                    select.select([], [self], [])
                left = left[written or 0 :]
        return total


class StandardStreams:
    """Standard output and error while a command runs."""

    def __init__(self) -> None:
        for descriptor in (0, 1, 2):
            _opened(descriptor)
        self._out, self._error = _Tolerant(1), _Tolerant(2)
        sys.stdout = sys.__stdout__ = _text(self._out, sys.stdout)  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = _text(self._error, sys.stderr, "backslashreplace")  # type: ignore[misc]

    def settle(self, code: int, command: str) -> int:
        """The exit code, once everything is written; a full disk is told."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        trouble = self._out.trouble
        if trouble is None or trouble.errno in _LEFT:
            return code
        said = trouble.strerror or type(trouble).__name__
        print(f"error: standard output cannot be written: {said}", file=sys.stderr, flush=True)
        return code if code or command in _JUDGING else ExitCode.USAGE


def _opened(descriptor: int) -> None:
    """Where the shell closed it (``>&-``), the null device stands there: else the next file that is
    opened would get its number, and what is printed."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _text(raw: _Tolerant, before: TextIO | None, errors: str = "strict") -> io.TextIOWrapper:
    """A text stream over ``raw``, set as the one ``before``, which is None where it was closed."""
    if before is not None:
        before.flush()
        errors = before.errors or errors
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding if before is not None else "utf-8",
        errors=errors,
        line_buffering=raw.isatty() or raw.fileno() == 2,
    )
