"""The next state is evaluated without start flags.

`("next", "is_init")` false everywhere: the target of one slice depends on the slice before it.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.faults.fault import Fault, flag_keys, needs_training
from rnncheck.pipeline.hooks import Hooks, NotApplicable, Parts
from rnncheck.pipeline.subject import next_key
from rnncheck.pipeline.tamper import present
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss")
    keys = [next_key(key) for key in flag_keys(parts)]

    def lowered(sample: TensorDictBase) -> TensorDictBase:
        raised = [key for key in present(sample, keys) if bool(sample.get(key).any())]
        if not raised:
            raise NotApplicable("the batch has no next start flag that could be lost")
        return sample.copy().update({key: torch.zeros_like(sample.get(key)) for key in raised})

    return Hooks(trained=lowered)


FAULT = Fault(
    name="next-flag-false",
    stage=Stage.LOSS,
    expects=("LS701",),
    plant=plant,
)
