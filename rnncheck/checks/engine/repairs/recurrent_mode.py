"""Runs the loss in recurrent mode."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.mending import in_recurrent_mode_whole


def plant(parts: Parts) -> Hooks:
    """The mode around every call of the loss."""
    if parts.spec.loss is None:
        raise CannotPlant("the spec has no loss stage")
    return Hooks(loss=in_recurrent_mode_whole)


REPAIR = Repair(("LS703", "LS702", "GR801"), "with the loss in set_recurrent_mode(True)", plant)
