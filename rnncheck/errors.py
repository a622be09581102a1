"""What can go wrong, and every sentence that a user reads when it does.

    RnncheckError
    ├── UserError            exit 2: one sentence, a place, what is accepted, what to do
    │   ├── SpecError        the spec file itself
    │   ├── ComponentError   a class, an argument or a factory that the spec names
    │   │   ├── VersionError the installed TorchRL lacks it, a newer one has it: it is skipped
    │   │   └── KernelError  this processor lacks what it computes with: it is skipped
    │   └── OutputError      a report or result that cannot be written
    ├── FindingsError        what ``Run.raise_for_findings`` raises
    └── StageError           the user's pipeline raised while it ran: an outcome, never a crash
        ├── StageTimeout     a stage outlived its time-out
        └── StageLacking     this processor lacks what the stage computes with: it is skipped

VersionError, KernelError and StageLacking are Lacking: nothing is known of what they prevent.

Library code raises these and never prints; ``rnncheck.cli`` prints and exits.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from rnncheck.printable import clean, clean_lines


@dataclass(frozen=True)
class Place:
    """A position in a file; ``line`` and ``column`` count from 1, and 0 means unknown."""

    path: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = [self.path, *(str(n) for n in (self.line, self.column) if n)]
        return ":".join(parts)


class RnncheckError(Exception):
    """Base of everything that rnncheck raises on purpose."""


class UserError(RnncheckError):
    """Bad input. ``str()`` is what the user reads: place, sentence, accepted values, next step."""

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        accepted: str = "",
        hint: str = "",
        frames: str = "",
    ) -> None:
        self.message = message
        self.place = place
        self.accepted = accepted
        self.hint = hint
        self.frames = frames  # the user's own traceback frames, already formatted
        super().__init__(message)

    def __str__(self) -> str:
        head = f"{self.place}: {self.message}" if self.place else self.message
        extra = (f"accepted: {self.accepted}" if self.accepted else "", self.hint, self.frames)
        told = (line for part in extra if part for line in clean_lines(part).splitlines())
        return "\n".join([clean(head), *(f"  {line}" for line in told)])


class SpecError(UserError):
    """The spec file is missing, malformed or says something that the schema refuses."""


class ComponentError(UserError):
    """A component that the spec names does not exist, does not take an argument or failed to
    build."""


class Lacking(RnncheckError):
    """What is needed is missing on this machine: nothing is known of what needs it."""

    message: str
    place: Place | None

    @property
    def reason(self) -> str:
        """The sentence and its place on one line, for what is skipped."""
        return f"{self.message} ({self.place})" if self.place else self.message


class VersionError(ComponentError, Lacking):
    """What a component names is not in the installed TorchRL, but in a newer supported one."""


class KernelError(ComponentError, Lacking):
    """This processor has no kernel for what a component computes."""


class UnrepeatableError(UserError, Lacking):
    """What a script was seen to do cannot be done again on other data."""


class UntoldError(RuntimeError):
    """What of some data a script holds cannot be told, so that its lines cannot be run on other."""


class OutputError(UserError):
    """A report or a stored result cannot be written."""


class OutputErrors(OutputError):
    """Several outputs that could not be written, each tried. ``errors`` holds them one by one."""

    def __init__(self, errors: Iterable[OutputError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.message, place=first.place, hint=first.hint)


class StageError(RnncheckError):
    """The user's pipeline raised in one of its stages; ``frames`` are the user's own."""

    def __init__(
        self, stage: str, message: str, *, place: Place | None = None, frames: str = ""
    ) -> None:
        self.stage = stage
        self.message = message
        self.place = place
        self.frames = frames
        super().__init__(f"{stage}: {message}")


class StageTimeout(StageError):
    """A stage did not finish within its time-out."""


class StageLacking(StageError, Lacking):
    """This processor has no kernel for what a stage computes."""


class FindingsError(RnncheckError):
    """A run that did not verify the pipeline: a check failed, or nothing could be told. ``run`` is
    the Run."""

    def __init__(self, message: str, run: object = None) -> None:
        self.run = run
        super().__init__(message)


def first_line(error: BaseException) -> str:
    """``TypeName: text`` in one line; what rnncheck raises is a sentence and needs no name."""
    lines = str(error).strip().splitlines()
    name = type(error).__name__
    if not lines:
        return name
    own = type(error).__module__.partition(".")[0] == __package__
    return lines[0] if own else f"{name}: {lines[0]}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to ``name``, or None when none is close."""
    pool = sorted(set(known))
    folded = {candidate.lower(): candidate for candidate in pool}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` or an empty string."""
    match = nearest(name, known)
    return f"did you mean {match!r}?" if match else ""
