"""A reset leaves the state of the episode before.

A primer that fills the state once and not at every reset.
"""

from __future__ import annotations

from rnncheck.faults.fault import Fault, keeping_state
from rnncheck.pipeline.plant.hooks import Hooks, Parts
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    return Hooks(env=keeping_state(parts, lambda carrier: carrier.keys))


FAULT = Fault(
    name="reset-keeps-state",
    stage=Stage.ENV,
    expects=("CL403", "BD307", "BD302"),
    plant=plant,
)
