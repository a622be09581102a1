"""The modules inside of a module, whatever its class calls ``modules``."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn


def all_modules(module: nn.Module) -> Iterator[nn.Module]:
    """It and all that are in it; TorchRL's BurnInTransform has a list by the method's name."""
    return nn.Module.modules(module)
