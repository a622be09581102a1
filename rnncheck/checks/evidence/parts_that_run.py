"""What of a policy runs on a batch that holds only some of its states."""

from __future__ import annotations

from tensordict import TensorDictBase
from tensordict.nn import TensorDictSequential
from torch import nn

from rnncheck.pipeline.keys import Key, declared, tensor_keys
from rnncheck.pipeline.subject.subject import Subject


def part_that_runs(subject: Subject, batch: TensorDictBase) -> nn.Module | None:
    """A copy of the modules in a row of which the batch has what they read, where the others lack a
    state, as those of a teacher that runs beside; None where there are none such."""
    whole = subject.copy()
    if not isinstance(whole, TensorDictSequential):
        return None
    there, lost = set(tensor_keys(batch)), set[Key](subject.carry)
    kept = list[nn.Module]()
    for one in whole.module:
        missing = set(declared(one, "in_keys")) - there
        if not missing:
            kept.append(one)
            there |= set(declared(one, "out_keys"))
        elif missing <= lost:
            lost |= set(declared(one, "out_keys"))
        else:
            return None
    return TensorDictSequential(*kept) if 0 < len(kept) < len(whole.module) else None
