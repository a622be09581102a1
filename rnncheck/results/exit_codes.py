"""The exit codes of every command."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status means."""

    VERIFIED = 0
    FAILED = 1
    USAGE = 2
    INTERNAL = 3
    NOT_SHOWN = 4
    SLOWER = 5
    INTERRUPTED = 130
    TERMINATED = 143
