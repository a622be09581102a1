"""Runs the value estimator in recurrent mode."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.mending import in_recurrent_mode_whole


def plant(parts: Parts) -> Hooks:
    """The mode around every call of the estimator."""
    if parts.spec.advantage is None:
        raise CannotPlant("the spec has no advantage stage")
    return Hooks(estimator=in_recurrent_mode_whole)


REPAIR = Repair(("VL604", "VL602"), "with the estimator in set_recurrent_mode(True)", plant)
