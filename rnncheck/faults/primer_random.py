"""Every reset gives another state.

TensorDictPrimer with `random=True`.
"""

from __future__ import annotations

from rnncheck.faults.fault import Fault, on_states_of_env
from rnncheck.pipeline.plant.env_changes import with_random_states
from rnncheck.results.model import Stage

FAULT = Fault(
    name="primer-random",
    stage=Stage.ENV,
    expects=("WR105",),
    plant=on_states_of_env(with_random_states),
)
