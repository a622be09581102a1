"""Looking inside a loss: what its recurrent modules read and write while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.keys import Key, declared
from rnncheck.pipeline.subject import next_key

FUNCTORCH = torch._C._functorch


@dataclass(frozen=True)
class Pass:
    """One forward pass of a recurrent module inside a loss: its first input and first output, as in its batch."""

    carry: tuple[Key, ...]
    output: Key
    x: Tensor
    y: Tensor
    shape: torch.Size  # batch shape of the tensordict that it ran on


class Inside:
    """Notes every pass of a carrying module inside ``loss`` while the context is open."""

    def __init__(self, loss: Any) -> None:
        self.passes: list[Pass] = []
        self._modules = list(_carrying(loss))
        self._handles: list[Any] = []

    def __enter__(self) -> Inside:
        for module in self._modules:
            self._handles.append(module.register_forward_pre_hook(self._read, with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._wrote, with_kwargs=True))
        self._inputs: list[Tensor | None] = []
        return self

    def _read(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        td = _tensordict(args, kwargs)
        x = None if td is None else td.get(declared(module, "in_keys")[0], None)
        self._inputs.append(x if isinstance(x, Tensor) else None)

    def _wrote(self, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        x, td = self._inputs.pop(), result if isinstance(result, TensorDictBase) else None
        td = td if td is not None else _tensordict(args, kwargs)
        key = declared(module, "out_keys")[0]
        y = None if td is None else td.get(key, None)
        if td is None or not isinstance(x, Tensor) or not isinstance(y, Tensor):
            return
        if not FUNCTORCH.is_batchedtensor(y):
            self.passes.append(Pass(_states(module), key, x.detach(), y, td.batch_size))

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()


def _tensordict(args: Any, kwargs: Any) -> TensorDictBase | None:
    return next((a for a in (*args, *kwargs.values()) if isinstance(a, TensorDictBase)), None)


def _states(module: nn.Module) -> tuple[Key, ...]:
    reads, writes = declared(module, "in_keys"), declared(module, "out_keys")
    return tuple(key for key in reads if next_key(key) in writes)


def _carrying(loss: Any) -> Iterator[nn.Module]:
    """Innermost carrying modules of a loss, also in networks that TorchRL keeps without their parameters."""
    seen: set[int] = set()
    for root in _roots(loss):
        found = [part for part in root.modules() if _states(part)]
        for part in found:
            inner = any(p is not part and id(p) in {id(q) for q in found} for p in part.modules())
            if not inner and id(part) not in seen:
                seen.add(id(part))
                yield part


def _roots(loss: Any) -> Iterator[nn.Module]:
    if isinstance(loss, nn.Module):
        yield loss
    for value in vars(loss).values() if hasattr(loss, "__dict__") else ():
        if isinstance(value, nn.Module):
            yield value
    for cell in getattr(loss, "__closure__", None) or ():
        if isinstance(cell.cell_contents, nn.Module):
            yield cell.cell_contents
