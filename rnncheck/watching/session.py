"""``rnncheck.watch``: the watch as a context, for a notebook or a training loop of one's own."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from rnncheck.pipeline.guard.default_device import own_tensors_on_cpu
from rnncheck.pipeline.guard.user_frames import training_packages_followed
from rnncheck.spec.settings import VerifySpec
from rnncheck.spec.watched import unseen
from rnncheck.watching import weights
from rnncheck.watching.ending import ScriptEnd, trained
from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.opening import opened

if TYPE_CHECKING:
    from rnncheck.notebook import ShownRun


class Watched:
    """What was seen inside a ``watch``."""

    def __init__(self, watching: Watching, name: str) -> None:
        self._watching, self._name = watching, name

    @property
    def updates(self) -> int:
        """How many optimiser steps were seen."""
        return self._watching.seen.updates

    @property
    def policy(self) -> Any:
        """Who was seen to act; None where nobody was."""
        acting = self._watching.seen.actor()
        return None if acting is None else acting.policy

    def verify(
        self,
        *,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        strict: bool = False,
        thorough: bool = False,
        seed: int = 0,
        timeout: float = 120.0,
    ) -> ShownRun:
        """Run the checks on it and return the Run, as ``rnncheck.verify`` does.

        Meanwhile the networks have the weights that they had before the first update; afterwards
        they have again those that they were trained to.
        """
        from rnncheck.checks.engine.select import select_rules
        from rnncheck.checks.engine.session import run_started
        from rnncheck.exhibits.collect import Illustration
        from rnncheck.notebook import ShownRun, in_notebook
        from rnncheck.results.collect import RunCollector
        from rnncheck.watching.events import as_it_acted, judged_events

        seen, begin = self._watching.seen, time.perf_counter()
        settings = VerifySpec(strict=strict, timeout=timeout)
        asked = unseen(self._name, seed, settings)
        rules = select_rules(asked, select, ignore)
        train = trained(seen, ScriptEnd())
        listener = RunCollector(run_started(asked, rules, "run", strict=strict))
        with (
            own_tensors_on_cpu(),
            training_packages_followed(),
            weights.instead(seen.weights_then),
            as_it_acted(seen),
        ):
            events = judged_events(
                seen,
                asked,
                rules,
                train,
                thorough=thorough,
                strict=strict,
                illustrate=Illustration(in_notebook()),
            )
            with closing(events):
                for event in events:
                    listener(event)
        seconds = time.perf_counter() - begin
        return ShownRun.of(listener.finish(interrupted=False, seconds=seconds))


@contextmanager
def watch(*, updates: int = 3) -> Iterator[Watched]:
    """Watch the training code that runs inside; ``updates`` optimiser steps are enough.

    Nothing of it is changed or ended, and nothing of the watching stays behind. What was seen is
    judged afterwards:

        with rnncheck.watch() as watched:
            train()
        watched.verify().raise_for_findings()
    """
    watching = Watching(updates, ends=False)
    with own_tensors_on_cpu(), training_packages_followed():
        with opened(watching):
            yield Watched(watching, sys._getframe(2).f_code.co_filename)
        watching.settle()
