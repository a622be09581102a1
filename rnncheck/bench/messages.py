"""What is said between a sweep and its worker processes, and its form on the wire.

    OpenPipeline     -> PipelineOpened
    PrepareCell      -> CellPrepared
    TimeRound        -> SampleBegun and SampleTaken for each of its cells, then RoundEnded
    DropCell         -> CellDropped
    DescribePipeline -> PipelineContents

``WorkerFailed`` may come in the place of any answer, and ends the command. On the wire a message is
one line, a JSON object: what it is under ``do`` or ``is``, then its fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rnncheck.errors import RnncheckError
from rnncheck.results.cells import Accuracy, Cell, Memory, Status
from rnncheck.results.model import Environment
from rnncheck.results.plain import fields_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

LAST = "\n"  # the line in place of a command behind which there is none
_SHOWN = (
    80  # characters of a line that cannot be read; chosen so that a sentence about it stays one
)


@dataclass(frozen=True)
class OpenPipeline:
    """Build the pipeline of the spec at a path.

    Without a hash any content of the spec will do, without threads torch's own number.
    """

    spec: str
    overrides: tuple[str, ...]
    hash: str | None
    memory_limit: int | None  # MiB
    threads: int | None


@dataclass(frozen=True)
class PrepareCell:
    """Build a cell's call and warm it up; ``judge`` its numbers and measure its memory."""

    cell: Cell
    judge: bool = True


@dataclass(frozen=True)
class TimeRound:
    """One sample of each cell, in this order, in which a cell may come again; over so many calls,
    or as many as warm-up chose."""

    keys: tuple[str, ...]
    repetitions: int | None = None


@dataclass(frozen=True)
class DropCell:
    """Forget a cell: its tensors are freed."""

    key: str


@dataclass(frozen=True)
class DescribePipeline:
    """Say what the process runs."""


@dataclass(frozen=True)
class PipelineOpened:
    """The pipeline is built; ``threads`` is what torch computes with."""

    threads: int


@dataclass(frozen=True)
class CellPrepared:
    """A cell can be timed. What was not judged is None."""

    key: str
    first_call: float  # seconds, compilation included
    compile: float | None  # seconds of the first call beyond a steady one
    seconds: float  # of a steady call
    repetitions: int  # calls within one sample
    steady: bool
    accuracy: Accuracy | None
    memory: Memory | None
    engine: str


class RoundAnswer:
    """One of the several answers to ``TimeRound``."""


@dataclass(frozen=True)
class SampleBegun(RoundAnswer):
    """From here on it is this cell that a crash or a silence belongs to."""

    key: str


@dataclass(frozen=True)
class SampleTaken(RoundAnswer):
    """Wall and CPU seconds of one call of a cell; ``waited`` is what was taken off the wall,
    ``pace`` the seconds of the fixed work beside it (``pace.Pace``), 0 where it was not timed."""

    key: str
    wall: float
    cpu: float
    waited: float
    pace: float = 0.0


@dataclass(frozen=True)
class RoundEnded(RoundAnswer):
    """All samples of a round are taken; ``cpu`` are the seconds that the process used for it."""

    cpu: float


@dataclass(frozen=True)
class CellDropped:
    """A cell is forgotten."""


@dataclass(frozen=True)
class PipelineContents:
    """What a process runs: the user's own files that it imported, and the libraries."""

    files: tuple[str, ...]
    environment: Environment


@dataclass(frozen=True)
class WorkerFailed:
    """What was asked cannot be done; the process goes on."""

    status: Status
    reason: str


Command = OpenPipeline | PrepareCell | TimeRound | DropCell | DescribePipeline
WorkerAnswer = (
    PipelineOpened
    | CellPrepared
    | SampleBegun
    | SampleTaken
    | RoundEnded
    | CellDropped
    | PipelineContents
    | WorkerFailed
)
_COMMANDS: Mapping[str, type[Command]] = {
    "open": OpenPipeline,
    "prepare": PrepareCell,
    "round": TimeRound,
    "drop": DropCell,
    "describe": DescribePipeline,
}
_ANSWERS: Mapping[str, type[WorkerAnswer]] = {
    "opened": PipelineOpened,
    "prepared": CellPrepared,
    "begun": SampleBegun,
    "sample": SampleTaken,
    "ended": RoundEnded,
    "dropped": CellDropped,
    "contents": PipelineContents,
    "failed": WorkerFailed,
}
_KINDS: Mapping[str, Mapping[str, type[Any]]] = {"do": _COMMANDS, "is": _ANSWERS}


class UnreadableMessage(RnncheckError):
    """A line that is no message, or not a whole one."""


def encode_command(command: Command) -> str:
    """The line that ``decode_command`` reads."""
    return _encoded("do", command)


def encode_answer(answer: WorkerAnswer) -> str:
    """The line that ``decode_answer`` reads."""
    return _encoded("is", answer)


def decode_command(line: str) -> Command:
    """What is asked. Raises UnreadableMessage."""
    found: Command = _decoded("do", line)
    return found


def decode_answer(line: str) -> WorkerAnswer:
    """What was answered. Raises UnreadableMessage."""
    found: WorkerAnswer = _decoded("is", line)
    return found


def _encoded(key: str, message: object) -> str:
    name = next(name for name, kind in _KINDS[key].items() if kind is type(message))
    return json.dumps({key: name, **fields_of(message)}) + "\n"


def _decoded(key: str, line: str) -> Any:
    from pydantic import ValidationError

    try:
        fields = json.loads(line)
    except ValueError as error:
        raise UnreadableMessage(f"{_short(line)} is not JSON") from error
    name = fields.pop(key, None) if isinstance(fields, dict) else None
    if not isinstance(name, str) or name not in _KINDS[key]:
        known = ", ".join(_KINDS[key])
        raise UnreadableMessage(f"{_short(line)} is no message: `{key}` is none of {known}")
    try:
        return _adapter(key, name).validate_python(fields)
    except ValidationError as error:
        raise UnreadableMessage(f"{name!r} does not fit: {_problem(error)}") from error


@cache
def _adapter(key: str, name: str) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(_KINDS[key][name])


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _short(line: str) -> str:
    text = repr(line.strip())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
