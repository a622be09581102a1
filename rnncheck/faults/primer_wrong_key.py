"""The primed state lies under a key that nobody reads.

A typo in the primer's key, or a module whose keys were renamed.
"""

from __future__ import annotations

from rnncheck.faults.fault import Fault
from rnncheck.pipeline.hooks import Hooks, NotApplicable, Parts
from rnncheck.pipeline.tamper import own_primers, renamed_primer, with_primers
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    if not own_primers(parts.env):
        raise NotApplicable("the env has no state primer of its own that could be renamed")
    return Hooks(env=lambda env: with_primers(env, lambda primer: renamed_primer(primer, "_old")))


FAULT = Fault(
    name="primer-wrong-key",
    stage=Stage.ENV,
    expects=("WR103", "WR104", "CL401"),
    plant=plant,
)
