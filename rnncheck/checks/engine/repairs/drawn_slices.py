"""Draws slices of episodes and marks where they begin."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.mending import start_flags_read, with_marks
from rnncheck.pipeline.plant.mending_batches import drawing_slices


def plant(parts: Parts) -> Hooks:
    """Another sampler in every buffer, and marks on what it draws."""
    if parts.spec.replay is None:
        raise CannotPlant("the spec has no replay stage")
    keys = start_flags_read(parts.env, parts.policy)
    return Hooks(replay=drawing_slices, sample=lambda sample: with_marks(sample, keys))


REPAIR = Repair(("RP502",), "with a SliceSampler that draws slices of episodes", plant)
