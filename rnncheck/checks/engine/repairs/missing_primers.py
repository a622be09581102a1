"""Appends the primers of the policy's modules to every env."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.pipeline.plant.mending import with_primers


def plant(parts: Parts) -> Hooks:
    """Primers behind all transforms."""
    return Hooks(env=lambda env: with_primers(env, parts.policy))


REPAIR = Repair(("WR103", "WR104"), "with the policy's primers appended to the env", plant)
