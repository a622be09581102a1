"""Starts the passes over the next steps from the states that were collected."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.mending_networks import (
    both,
    from_collected,
    inside_training,
    keeping_next,
)


def plant(parts: Parts) -> Hooks:
    """Whatever states the loss or the estimator hands them."""
    if parts.spec.loss is None and parts.spec.advantage is None:
        raise CannotPlant("the spec has no advantage and no loss stage")
    return inside_training(both(keeping_next, from_collected))


REPAIR = Repair(
    ("VL604", "VL602"), "with the passes over the next steps started from the collected states",
    plant,
)  # fmt: skip
