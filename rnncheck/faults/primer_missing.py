"""No reset gives the state.

No TensorDictPrimer in the env: the collector feeds no state and the policy acts without memory.
"""

from __future__ import annotations

from rnncheck.faults.fault import Fault
from rnncheck.pipeline.hooks import Hooks, NotApplicable, Parts
from rnncheck.pipeline.tamper import own_primers, with_primers
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    if not own_primers(parts.env):
        raise NotApplicable("the env has no state primer of its own that could be left out")
    return Hooks(env=lambda env: with_primers(env, lambda primer: None))


FAULT = Fault(
    name="primer-missing",
    stage=Stage.ENV,
    expects=("WR103", "CL401"),
    plant=plant,
)
