"""What runs the user's code, in a supervised process where this one is a command's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rnncheck.results.events import Event
    from rnncheck.supervisor.scripts import ScriptEnded


@contextmanager
def streamed_events(
    make: Callable[[], Iterator[Event]],
    waiting: Callable[[], None] = lambda: None,
    *,
    prints: bool = False,
    script_ended: ScriptEnded | None = None,
    pipelines: bool = True,
) -> Iterator[Iterator[Event]]:
    """The events of ``make()``; a process that ends in the middle of them ends the run. Where it is
    supervised, ``waiting`` is called at least once a second, with ``prints`` its standard output is
    this one's, and until an event is ``script_ended`` Ctrl-C goes to what runs there first. Without
    ``pipelines`` nothing is built there."""
    from rnncheck.supervisor.supervise import supervised_events

    events = partial(supervised_events, waiting=waiting, prints=prints, script_ended=script_ended)
    with _open(make, events, pipelines=pipelines) as stream:
        yield _telling(stream)


@contextmanager
def streamed(make: Callable[[], Iterator[Any]]) -> Iterator[Iterator[Any]]:
    """The items of ``make()``, and Broken as the last where its process ended in the middle."""
    from rnncheck.supervisor.supervise import supervised

    with _open(make, supervised) as stream:
        yield stream


@contextmanager
def _open(
    make: Callable[[], Iterator[Any]],
    supervise: Callable[[Callable[[], Iterator[Any]]], Iterator[Any]],
    *,
    pipelines: bool = True,
) -> Iterator[Iterator[Any]]:
    """The stream, closed at the end and with it the pipeline."""
    from rnncheck.supervisor.signals import armed

    stream = supervise(partial(_ahead, make) if pipelines else make) if armed() else make()
    try:
        yield stream
    finally:
        ending = getattr(stream, "close", None)
        if ending is not None:
            ending()


def _ahead(make: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The same in a process of its own, which begins with what all pipelines need."""
    from rnncheck.importing import PIPELINES, import_ahead

    import_ahead(*PIPELINES)
    return make()


def _telling(stream: Iterator[Event]) -> Iterator[Event]:
    from rnncheck.cli.messages import print_internal
    from rnncheck.results.events import RunBroken

    for event in stream:
        yield event
        if isinstance(event, RunBroken) and event.trace:
            print_internal(event.reason, event.trace)
