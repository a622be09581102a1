"""A slice lies across the write cursor of a full buffer.

A sampler that draws windows of a ring without asking where it begins: the newest step is followed
by the oldest.
"""

from __future__ import annotations

from rnncheck.faults.fault import Fault, needs_collect, needs_training
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.replay_changes import over_the_cursor
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_collect(parts)
    needs_training(parts, "replay")
    if parts.spec.collect is not None and parts.spec.collect.args.get("replay_buffer"):
        raise CannotPlant("the collector itself fills the buffer")
    return Hooks(replay=over_the_cursor)


FAULT = Fault(
    name="slices-over-cursor",
    stage=Stage.REPLAY,
    expects=("RP506",),
    plant=plant,
)
