"""What was made by which call, noted while somebody asks: so that it can be written as a
program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rnncheck.spec.model import Component


@dataclass(frozen=True)
class MadeCall:
    """``value`` is what calling ``by`` gave, for the ``component`` of the spec; None while it has
    not returned."""

    component: Component
    by: Any
    rest: tuple[Any, ...]
    args: Mapping[str, Any]
    value: Any


_LISTENING: list[list[MadeCall]] = []


@contextmanager
def noting_made() -> Iterator[list[MadeCall]]:
    """The calls that are made meanwhile, in order."""
    found: list[MadeCall] = []
    _LISTENING.append(found)
    try:
        yield found
    finally:
        _LISTENING.pop()


def note_made(
    component: Component,
    by: Any,
    args: Mapping[str, Any],
    value: Any = None,
    rest: tuple[Any, ...] = (),
) -> None:
    """Tell whoever listens of a call."""
    for found in _LISTENING:
        found.append(MadeCall(component, by, tuple(rest), dict(args), value))
