"""The estimator evaluates the critic step by step.

GAE outside set_recurrent_mode(True): V_next is wrong at the start of every segment.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, around_estimator, needs_training
from rnncheck.pipeline.hooks import Hooks, NotApplicable, Parts
from rnncheck.pipeline.subject import carriers
from rnncheck.pipeline.tamper import mode
from rnncheck.results.model import Stage


def sequential(call: Any, td: TensorDictBase, parts: Parts) -> Any:
    with mode(False):
        return call(td)


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "advantage")
    network = parts.policy if parts.critic is None else parts.critic
    if not carriers(network):
        raise NotApplicable("the critic carries no state")
    return around_estimator(sequential)(parts)


FAULT = Fault(
    name="sequential-estimator",
    stage=Stage.ADVANTAGE,
    expects=("VL602", "VL604", "VL605"),
    plant=plant,
)
