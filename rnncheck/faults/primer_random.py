"""Every reset gives another state.

TensorDictPrimer with `random=True`.
"""

from __future__ import annotations

from rnncheck.faults.fault import Fault
from rnncheck.pipeline.hooks import Hooks, NotApplicable, Parts
from rnncheck.pipeline.tamper import own_primers, random_primer, with_primers
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    if not own_primers(parts.env):
        raise NotApplicable("the env has no state primer of its own that could be exchanged")
    return Hooks(env=lambda env: with_primers(env, random_primer))


FAULT = Fault(
    name="primer-random",
    stage=Stage.ENV,
    expects=("WR105",),
    plant=plant,
)
