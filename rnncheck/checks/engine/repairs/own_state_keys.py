"""Gives every recurrent module state keys of its own."""

from __future__ import annotations

from rnncheck.checks.engine.repairs.repair import Repair
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.mending import with_primers
from rnncheck.pipeline.plant.mending_keys import in_the_way, with_own_keys


def plant(parts: Parts) -> Hooks:
    """Other keys for each module behind the first one, and primers for those that act."""
    policy, critic = in_the_way(parts.policy, parts.critic)
    if not policy and not critic:
        raise CannotPlant("no two recurrent modules use one key")
    if not policy:
        return Hooks(critic=lambda network: with_own_keys(network, critic))
    primed = with_own_keys(copy_of(parts.policy, "the policy"), policy)
    return Hooks(
        env=lambda env: with_primers(env, primed),
        policy=lambda network: with_own_keys(network, policy),
        critic=lambda network: with_own_keys(network, critic),
    )


REPAIR = Repair(("WR106",), "with state keys of its own for every recurrent module", plant)
