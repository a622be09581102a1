"""Losses with squared errors in the place of distances that saturate.

Far from their target, smooth L1, Huber's and L1 losses have one slope, whatever the target is: what
moves the target moves neither their gradient nor their answer to other rewards. Which target an
element has does not depend on the distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional

_NAMES = ("smooth_l1_loss", "huber_loss", "l1_loss")


class SquaredErrors:
    """While the context is open these are mean squared errors; ``used``: one was called."""

    def __enter__(self) -> SquaredErrors:
        self.used = False
        self._own: dict[str, Callable[..., Tensor]] = {
            name: getattr(functional, name) for name in _NAMES
        }
        for name in _NAMES:
            setattr(functional, name, self._squared)
        return self

    def __exit__(self, *_: object) -> None:
        for name, function in self._own.items():
            setattr(functional, name, function)

    def _squared(
        self, input: Tensor, target: Tensor, *_: Any, reduction: str = "mean", **__: Any
    ) -> Tensor:
        """Arguments as torch names them; ``beta`` and ``delta`` have no meaning here."""
        self.used = True
        return functional.mse_loss(input, target, reduction=reduction)
