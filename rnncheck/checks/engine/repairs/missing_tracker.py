"""Appends InitTracker to every env."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.pipeline.plant.mending import with_tracker


def plant(_parts: Parts) -> Hooks:
    """A tracker behind all transforms."""
    return Hooks(env=with_tracker)


REPAIR = Repair(("WR102",), "with InitTracker appended to the env", plant)
