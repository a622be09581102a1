"""Hands the states on inside the loss with their graph."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.mending_networks import WithGraph, inside_training


def plant(parts: Parts) -> Hooks:
    """What ``detach()`` cut between two calls of a network is joined again."""
    if parts.spec.loss is None:
        raise CannotPlant("the spec has no loss stage")
    return inside_training(WithGraph(), parts=True)


REPAIR = Repair(
    ("GR801",), "with the states handed from step to step without detach() inside the loss", plant
)
