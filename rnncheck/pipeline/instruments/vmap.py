"""What stands for several values at once: tensors under ``torch.vmap``."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.copying.all_modules import all_modules


def is_batched(value: Tensor) -> bool:
    """Whether the tensor stands for several at once, so that nothing can be asked of its values."""
    return bool(torch._C._functorch.is_batchedtensor(value))


def unbatched(value: Tensor) -> Tensor:
    """The tensor that holds the several ones, or the tensor itself."""
    while is_batched(value):
        value = torch._C._functorch.get_unwrapped(value)
    return value


def has_no_graph_of_its_own() -> bool:
    """Whether what runs now is inside of ``torch.vmap`` or the like, where no tensor can be told to
    require a gradient, whether it stands for several or not."""
    return torch._C._functorch.maybe_current_level() is not None


def left_under_vmap(owner: object) -> bool:
    """Whether a call under vmap that raised left its own weights in a network of ``owner``."""
    roots = [owner, *(vars(owner).values() if hasattr(owner, "__dict__") else ())]
    parts = (part for root in roots if isinstance(root, nn.Module) for part in all_modules(root))
    weights = (one for part in parts for one in part._parameters.values() if one is not None)
    return any(map(is_batched, weights))


def under_vmap(td: TensorDictBase) -> bool:
    """Whether any entry of ``td`` stands for several at once."""
    tensors = (value for value in td.values(True, True) if isinstance(value, Tensor))
    return any(map(is_batched, tensors))
