"""The last observation of an episode is the first one of the next.

An auto-resetting env whose terminal observation is never seen. Every episode is truncated early, so
that a target bootstraps from it.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, needs_collect
from rnncheck.pipeline.keys import Key, as_key, present
from rnncheck.pipeline.plant.env_changes import shortened
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import choose
from rnncheck.pipeline.subject.subject import carriers, next_key
from rnncheck.results.model import Stage

_STEPS = 9  # of an episode: a batch of 32 steps and more then holds a few ends
DONE = ("next", "done")


def plant(parts: Parts) -> Hooks:
    needs_collect(parts)
    observed, states = parts.env.full_observation_spec, _states(parts)
    keys = [key for key in map(as_key, observed.keys(True, True)) if key not in states]
    keys = [key for key in keys if observed[key].dtype is not torch.bool]
    if ("done",) not in [as_key(key) for key in parts.env.done_keys]:
        raise CannotPlant("the env has no entry called done")

    def from_reset(batch: TensorDictBase) -> TensorDictBase:
        ended = batch.get(DONE).reshape(*batch.shape, -1).any(-1)
        ended[..., -1] = False  # what comes after the batch is not in it
        for key in _both(batch, keys):
            later = batch.get(key).roll(-1, batch.ndim - 1)
            batch.set(next_key(key), choose(ended, later, batch.get(next_key(key))))
        return batch

    return Hooks(env=lambda env: shortened(env, _STEPS), batch=from_reset)


def _states(parts: Parts) -> set[Key]:
    """What the networks carry: the env may prime it, and nobody observes it."""
    networks = [parts.policy, *([] if parts.critic is None else [parts.critic])]
    return {key for network in networks for one in carriers(network) for key in one.keys}


def _both(batch: TensorDictBase, keys: list[Key]) -> list[Key]:
    return [key for key in present(batch, keys) if present(batch, [next_key(key)])]


FAULT = Fault(
    name="terminal-observation-lost",
    stage=Stage.COLLECT,
    expects=("VL603",),
    plant=plant,
)
