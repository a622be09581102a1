"""Marks every join of a training batch with a start flag."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.pipeline.plant.mending import start_flags_read, with_marks


def plant(parts: Parts) -> Hooks:
    """Marks behind whatever makes the training batches."""
    keys = start_flags_read(parts.env, parts.policy)
    return Hooks(trained=lambda sample: with_marks(sample, keys))


REPAIR = Repair(("RP501",), "with is_init set wherever a training batch joins two stretches", plant)
