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


# What each says, for the reference; how a command came to it is in its report.
MEANINGS = {
    ExitCode.VERIFIED: "verified: every guarantee whose stages are there is shown",
    ExitCode.FAILED: (
        "a check failed, or a warning under `--strict`; `gate`: something is gone or could not be "
        "measured"
    ),
    ExitCode.USAGE: (
        "a mistake in the spec or on the command line, or an output that cannot be written"
    ),
    ExitCode.INTERNAL: "a stage or a check raised, or rnncheck itself did",
    ExitCode.NOT_SHOWN: "nothing is broken, but something that was asked could not be shown",
    ExitCode.SLOWER: (
        "`gate`: slower than allowed, or over a budget; under `--strict` also where that is unclear"
    ),
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C); what was found so far is reported and stored",
    ExitCode.TERMINATED: "terminated (SIGTERM); what was found so far is reported and stored",
}
