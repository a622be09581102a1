"""Makes the start flag of every env anew, from its resets."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.pipeline.plant.mending import start_flags_read, with_true_flags


def plant(parts: Parts) -> Hooks:
    """True flags behind all transforms."""
    keys = start_flags_read(parts.env, parts.policy)
    return Hooks(env=lambda env: with_true_flags(env, keys))


REPAIR = Repair(("WR109", "CL405"), "with a start flag that is true at resets alone", plant)
