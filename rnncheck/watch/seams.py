"""All seams at once: open while a script runs, and closed as if they had never been."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rnncheck.watch.acting import acting_seams
from rnncheck.watch.own_training import own_training_seams
from rnncheck.watch.training import training_seams
from rnncheck.watch.watching import Watching


@contextmanager
def opened(watching: Watching) -> Iterator[None]:
    """Inside, the watch notes what passes."""
    with ExitStack() as scope:
        acting_seams(watching, scope)
        training_seams(watching, scope)
        own_training_seams(watching, scope)
        yield
