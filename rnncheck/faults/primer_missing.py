"""No reset gives the state.

No TensorDictPrimer in the env: the collector feeds no state and the policy acts without memory.
"""

from __future__ import annotations

from rnncheck.faults.fault import Fault, on_states_of_env
from rnncheck.pipeline.plant.env_changes import without_states
from rnncheck.results.model import Stage

FAULT = Fault(
    name="primer-missing",
    stage=Stage.ENV,
    expects=("WR103", "CL401"),
    plant=on_states_of_env(without_states),
)
