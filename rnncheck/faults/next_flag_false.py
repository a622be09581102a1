"""The next state is evaluated without start flags.

`("next", "is_init")` false everywhere: the target of one slice depends on the slice before it.
Where the loss or the estimator marks its pass over the next steps itself, it forgets to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.faults.fault import (
    Fault,
    Inside,
    around_estimator,
    around_loss,
    flag_keys,
    needs_training,
    wrapped,
)
from rnncheck.pipeline.keys import present
from rnncheck.pipeline.plant.hooks import CannotPlant, Hooks, Parts
from rnncheck.pipeline.plant.module_changes import (
    Call,
    called_with,
    is_next_pass,
    lowered_flags,
    start_mask,
)
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Stage


def plant(parts: Parts) -> Hooks:
    needs_training(parts, "loss", "advantage")
    keys = [next_key(key) for key in flag_keys(parts)]
    inside, lost, last = Inside(), list[bool](), "advantage" if parts.spec.loss is None else "loss"

    def batch(sample: TensorDictBase) -> TensorDictBase:
        raised = [key for key in present(sample, keys) if bool(sample.get(key).any())]
        lost.extend(True for _ in raised)
        return sample.copy().update({key: torch.zeros_like(sample.get(key)) for key in raised})

    def next_pass(module: nn.Module, call: Call, td: TensorDictBase) -> TensorDictBase:
        whole = inside.batch
        if whole is None or not is_next_pass(module, td, whole) or not start_mask(module, td).any():
            return call(td)
        lost.append(True)
        return called_with(module, call, td, lowered_flags(module, td))

    def watched(stage: str) -> Any:
        def run(call: Any, td: TensorDictBase, parts: Parts) -> Any:
            out = inside.run(call, td)
            if not lost and stage == last:
                raise CannotPlant("no pass over the next steps has a start flag to lose")
            return out

        return run

    change = wrapped(next_pass)
    hooks = Hooks(policy=change, critic=change, trained=batch)
    if parts.spec.advantage is not None:
        hooks = replace(hooks, estimator=around_estimator(watched("advantage"))(parts).estimator)
    if parts.spec.loss is not None:
        hooks = replace(hooks, loss=around_loss(watched("loss"))(parts).loss)
    return hooks


FAULT = Fault(
    name="next-flag-false",
    stage=Stage.LOSS,
    expects=("LS701", "VL601"),
    plant=plant,
)
