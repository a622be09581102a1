"""All seams at once: open while a script runs, and closed as if they had never been."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.acting import acting_seams
from rnncheck.watching.seams.makings import making_seams
from rnncheck.watching.seams.own_training import own_training_seams
from rnncheck.watching.seams.parts import parts_seams
from rnncheck.watching.seams.stepping import stepping_seams
from rnncheck.watching.seams.training import training_seams


@contextmanager
def opened(watching: Watching) -> Iterator[None]:
    """Inside, the watch notes what passes."""
    with ExitStack() as scope:
        stepping_seams(watching, scope)  # its steps are batches before others look at them
        acting_seams(watching, scope)
        training_seams(watching, scope)
        making_seams(watching, scope)
        own_training_seams(watching, scope)
        if watching.describes:
            parts_seams(watching, scope)
        yield
