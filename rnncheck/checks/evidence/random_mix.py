"""One number out of many outputs, so that a single backward pass asks for all of them."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key, tensor_keys


def mixed(td: TensorDictBase, keys: list[Key], mask: Tensor) -> Tensor | None:
    """A random mix of the differentiable outputs at ``mask``; None when there are none.

    The weights follow the names of the keys, so that two runs which write them in another order are
    mixed alike.
    """
    generator, terms = torch.Generator().manual_seed(5), list[Tensor]()
    present = set(tensor_keys(td))
    for key in sorted(set(keys) & present):
        value = td.get(key)
        weight = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.dtype)
        wide = mask.reshape(*mask.shape, *([1] * (value.ndim - 2)))
        if value.requires_grad:
            terms.append(torch.where(wide, value * weight, torch.zeros_like(value)).sum())
    return torch.stack([term.double() for term in terms]).sum() if terms else None
