"""What stands for several values at once: tensors under ``torch.vmap``."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor


def is_batched(value: Tensor) -> bool:
    """Whether the tensor stands for several at once, so that nothing can be asked of its values."""
    return bool(torch._C._functorch.is_batchedtensor(value))


def under_vmap(td: TensorDictBase) -> bool:
    """Whether any entry of ``td`` stands for several at once."""
    tensors = (value for value in td.values(True, True) if isinstance(value, Tensor))
    return any(map(is_batched, tensors))
