"""Puts what was collected back into every training batch."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.mending_batches import Collected


def plant(parts: Parts) -> Hooks:
    """States, start flags and log-probabilities, before the batch factory and behind it."""
    if parts.spec.collect is None:
        raise CannotPlant("the spec has no collect stage")
    collected = Collected(parts.policy)
    return Hooks(batch=collected.note, sample=collected.put_back, trained=collected.put_back)


REPAIR = Repair(
    ("RP503", "RP504", "LS702"),
    "with the collected states, start flags and log-probabilities in the training batches",
    plant,
)
