"""Marks every start in what was collected."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.pipeline.plant.mending import start_flags_read
from rnncheck.pipeline.plant.mending_batches import with_starts_marked


def plant(parts: Parts) -> Hooks:
    """Marks behind the collector."""
    keys = start_flags_read(parts.env, parts.policy)
    return Hooks(batch=lambda batch: with_starts_marked(batch, keys))


REPAIR = Repair(("CL405",), "with is_init set at every start that was collected", plant)
