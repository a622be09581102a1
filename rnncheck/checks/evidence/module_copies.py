"""Whether a module is another one, or a copy of it."""

from __future__ import annotations

import torch
from torch import nn

from rnncheck.pipeline.placing import on_cpu


def is_copy(one: nn.Module, other: nn.Module) -> bool:
    """Whether both have the same parameters, number by number."""
    if one is other:
        return True
    mine, theirs = list(one.parameters()), list(other.parameters())
    return len(mine) == len(theirs) and all(
        a.shape == b.shape and torch.equal(on_cpu(a), on_cpu(b))
        for a, b in zip(mine, theirs, strict=True)
    )
