"""How training batches are made out of samples, so that the making can be repeated on changed data.

A maker is what the user put between the storage and the loss: the buffer's transforms, or the ``batch`` factory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle
from torchrl.envs.transforms import BurnInTransform

from rnncheck.pipeline.subject.subject import carriers

CELLS = (nn.RNNCellBase,)
STACKS = (nn.RNNBase,)

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


class Runs:
    """Inside the context: on how many steps each outermost recurrent module runs; whether a BurnInTransform does."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = defaultdict(int)
        self.ready_made: list[int] = []  # `burn_in` of each
        self._depth = 0
        self._known: dict[int, tuple[nn.Module, bool]] = {}
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> Runs:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _before(self, module: nn.Module, args: Any) -> None:
        if isinstance(module, BurnInTransform):
            self.ready_made.append(int(module.burn_in))
        elif self._recurs(module):
            if self._depth == 0 and args:
                self.steps[id(module)] += _steps(module, args[0])
            self._depth += 1

    def _after(self, module: nn.Module, _args: Any, _result: Any) -> None:
        if not isinstance(module, BurnInTransform) and self._recurs(module):
            self._depth -= 1

    def _recurs(self, module: nn.Module) -> bool:
        if id(module) not in self._known:
            found = isinstance(module, (*CELLS, *STACKS)) or bool(carriers(module))
            self._known[id(module)] = (module, found)
        return self._known[id(module)][1]


def _steps(module: nn.Module, given: Any) -> int:
    if isinstance(given, TensorDictBase):
        return int(given.batch_size.numel())
    if not isinstance(given, Tensor):
        return 0
    lead = given.shape[:-1]  # a cell's rows, or the rows and steps of a stack
    return int(lead.numel()) if isinstance(module, (*CELLS, *STACKS)) else 0
