"""Copies of what stands for something outside Python's objects: locks, files, generators."""

from __future__ import annotations

import csv
import io
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing import sharedctypes, synchronize
from pathlib import Path
from typing import Any, Protocol

import torch


class PartCopier(Protocol):
    """What copies the parts of an object."""

    def part(self, value: Any) -> Any:
        """The copy of one part."""


def is_namespace(value: Mapping[Any, Any]) -> bool:
    """Whether it is what a module holds, which some objects keep a hold of: ``globals()``."""
    module = sys.modules.get(str(value.get("__name__", "")))
    return module is not None and vars(module) is value


def _lock(copier: PartCopier, value: Any) -> Any:
    """Nobody holds a new lock, as nobody else runs the copy."""
    return threading.Lock() if isinstance(value, _LOCK) else threading.RLock()


def _local(copier: PartCopier, value: threading.local) -> threading.local:
    made = threading.local()
    made.__dict__.update(copier.part(value.__dict__))
    return made


def _generator(copier: PartCopier, value: torch.Generator) -> torch.Generator:
    made = torch.Generator(device=value.device)
    made.set_state(value.get_state())
    return made


def _file(copier: PartCopier, value: Any) -> Any:
    """Opened again where it is read; what a copy writes goes nowhere."""
    text = isinstance(value, io.TextIOBase)
    if value.writable():
        return Path(os.devnull).open("w" if text else "wb")
    encoding = value.encoding if text else None
    made: Any = Path(value.name).open("r" if text else "rb", encoding=encoding)  # noqa: SIM115
    made.seek(value.tell())
    return made


def _rows_written(copier: PartCopier, value: Any) -> Any:
    """A writer of rows keeps only the method of its file: what a copy writes goes nowhere."""
    return csv.writer(Path(os.devnull).open("w"), value.dialect)


def _shared(copier: PartCopier, value: Any) -> Any:
    """A number, or an array, that processes share: the copy is of this process alone."""
    own = value.get_obj()
    return sharedctypes.synchronized(type(own).from_buffer_copy(own))


def _shared_lock(copier: PartCopier, value: Any) -> Any:
    return type(value)(ctx=multiprocessing.get_context())


_LOCK: Any = type(threading.Lock())
HANDLES: dict[type, Callable[[Any, Any], Any]] = {
    _LOCK: _lock,
    type(threading.RLock()): _lock,
    threading.local: _local,
    torch.Generator: _generator,
    sharedctypes.Synchronized: _shared,
    sharedctypes.SynchronizedArray: _shared,
    sharedctypes.SynchronizedString: _shared,
    synchronize.Lock: _shared_lock,
    synchronize.RLock: _shared_lock,
    synchronize.Event: _shared_lock,
    type(csv.writer(io.StringIO())): _rows_written,
    io.TextIOWrapper: _file,
    io.BufferedReader: _file,
    io.BufferedWriter: _file,
    io.BufferedRandom: _file,
    io.FileIO: _file,
}
