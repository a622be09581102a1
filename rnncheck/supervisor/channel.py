"""What a supervised process says, on a pipe: one pickled message after the other, in pieces that
name their sender, since a fork of it may speak between two of them.

Only classes of rnncheck's own and of the standard library's dates and paths are read back.
"""

from __future__ import annotations

import io
import os
import pickle
import select
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import EnumType
from typing import Any

from rnncheck.errors import UserError

_HEAD = struct.Struct("!IH?")  # the sender, how long the piece is, and whether it is the last
_PIECE = select.PIPE_BUF - _HEAD.size  # bytes that a pipe takes whole, head included
_MODULES = ("rnncheck", "datetime", "pathlib")


@dataclass(frozen=True)
class Told:
    """One item of the stream that the process runs."""

    item: Any


@dataclass(frozen=True)
class BadInput:
    """The stream raised a UserError."""

    error: UserError


@dataclass(frozen=True)
class Crashed:
    """The stream raised anything else."""

    said: str
    trace: str


@dataclass(frozen=True)
class Copied:
    """The process is a fork that the user's code made, and it went on; ``item`` was the last."""

    item: Any


@dataclass(frozen=True)
class Ended:
    """The stream is told to its end, and everything is closed."""


Message = Told | BadInput | Crashed | Copied | Ended


class Sender:
    """The writing end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Message) -> None:
        """Write it whole. Raises OSError where nobody listens."""
        data, me = pickle.dumps(message), os.getpid()
        for start in range(0, len(data), _PIECE):
            piece, last = data[start : start + _PIECE], start + _PIECE >= len(data)
            os.write(self._descriptor, _HEAD.pack(me, len(piece), last) + piece)


class Receiver:
    """Puts what was read together again."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._begun: dict[int, bytes] = defaultdict(bytes)  # of each sender

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete now. Raises UnpicklingError for what is none."""
        self._bytes += data
        while len(self._bytes) >= _HEAD.size:
            sender, length, last = _HEAD.unpack_from(self._bytes)
            end = _HEAD.size + length
            if len(self._bytes) < end:
                return
            self._begun[sender] += bytes(self._bytes[_HEAD.size : end])
            del self._bytes[:end]
            if last:
                yield _read(self._begun.pop(sender))


def _read(data: bytes) -> Message:
    found = _Reader(io.BytesIO(data)).load()
    if not isinstance(found, Message):
        raise pickle.UnpicklingError(f"{type(found).__name__} is no message")
    return found


def _member(kind: Any, name: str) -> Any:
    """What ``getattr`` is in a message: Python 3.11.0 to 3.11.3 pickle the members of an enum as
    that."""
    if isinstance(kind, EnumType) and name in kind.__members__:
        return kind[name]
    raise pickle.UnpicklingError(f"{name} of {kind} is nothing that is told")


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _member
        if module.partition(".")[0] not in _MODULES:
            raise pickle.UnpicklingError(f"{module}.{name} is nothing that is told")
        return super().find_class(module, name)
