"""Keeps the collected next states through every pass of the loss and the estimator."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.mending_networks import inside_training, keeping_next


def plant(parts: Parts) -> Hooks:
    """What the pass over the steps writes under ``next`` is undone."""
    if parts.spec.loss is None and parts.spec.advantage is None:
        raise CannotPlant("the spec has no advantage and no loss stage")
    return inside_training(keeping_next)


REPAIR = Repair(
    ("VL604", "VL602"), "with ('next', state) kept as collected through each pass", plant
)
