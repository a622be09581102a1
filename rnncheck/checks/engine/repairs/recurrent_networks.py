"""Runs the networks in recurrent mode inside the loss, whatever the loss sets around them."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.mending_networks import inside_training, over_time


def plant(parts: Parts) -> Hooks:
    """The mode around every call of a carrier of state."""
    if parts.spec.loss is None:
        raise CannotPlant("the spec has no loss stage")
    return inside_training(over_time)


REPAIR = Repair(
    ("LS703", "LS702", "GR801"), "with the networks inside the loss in recurrent mode", plant
)
