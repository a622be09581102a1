"""The primed state lies under a key that nobody reads.

A typo in the primer's key, or a module whose keys were renamed.
"""

from __future__ import annotations

from rnncheck.faults.fault import Fault, on_states_of_env
from rnncheck.pipeline.plant.env_changes import with_renamed_states
from rnncheck.results.model import Stage

FAULT = Fault(
    name="primer-wrong-key",
    stage=Stage.ENV,
    expects=("WR103", "WR104", "CL401"),
    plant=on_states_of_env(lambda env, keys: with_renamed_states(env, keys, "_old")),
)
