"""What a supervised process says, on a pipe: one pickled message after the other, each behind its
length.

Only classes of rnncheck's own and of the standard library's dates and paths are read back.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rnncheck.errors import UserError

_LENGTH = struct.Struct("!Q")
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
    """The process is a fork that the user's code made, and it went on, up to this item."""

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
        data = pickle.dumps(message)
        left = memoryview(_LENGTH.pack(len(data)) + data)
        while left:
            left = left[os.write(self._descriptor, left) :]


class Receiver:
    """Puts what was read together again."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete now. Raises UnpicklingError for what is none."""
        self._bytes += data
        while len(self._bytes) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._bytes)[0]
            if len(self._bytes) < end:
                return
            found = _Reader(io.BytesIO(bytes(self._bytes[_LENGTH.size : end]))).load()
            del self._bytes[:end]
            if not isinstance(found, Message):
                raise pickle.UnpicklingError(f"{type(found).__name__} is no message")
            yield found


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] not in _MODULES:
            raise pickle.UnpicklingError(f"{module}.{name} is nothing that is told")
        return super().find_class(module, name)
