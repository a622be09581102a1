"""How training batches are made out of samples, so that the making can be repeated on changed data.

A maker is what the user put between the storage and the loss: the buffer's transforms, or the
``batch`` factory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensordict import TensorDictBase
from torch import nn
from torch.utils.hooks import RemovableHandle

Make = Callable[[TensorDictBase], TensorDictBase]


@dataclass(frozen=True)
class Maker:
    """One maker with the first sample that it was given."""

    name: str
    given: TensorDictBase
    again: Make


class NotedInputs:
    """Keeps what the transforms of a TorchRL buffer are given first, inside the context."""

    def __init__(self, buffer: Any) -> None:
        self.given: TensorDictBase | None = None
        transform = getattr(buffer, "_transform", None)
        has = isinstance(transform, nn.Module) and bool(len(list(transform.children())))
        self._transform = transform if has else None
        self._handle: RemovableHandle | None = None

    def __enter__(self) -> NotedInputs:
        if self._transform is not None:
            self._handle = self._transform.register_forward_pre_hook(self._note)
        return self

    def _note(self, _module: nn.Module, args: tuple[Any, ...]) -> None:
        if self.given is None and args and isinstance(args[0], TensorDictBase):
            self.given = args[0].clone()

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.remove()

    def makers(self) -> list[Maker]:
        """The buffer's transforms as a maker, where a sample went through them."""
        if self.given is None or self._transform is None:
            return []
        return [Maker("replay", self.given, self._transform)]
