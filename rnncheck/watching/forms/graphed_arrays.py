"""A gradient at observations that a script holds as arrays: what torch makes of such an array again
stands for the tensor that the array was made of, wherever the script computes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.held_as import TENSORS
from rnncheck.watching.forms.plain_calls import OBSERVATION

_OF_ARRAYS = (torch.float32, torch.float64)
_LEAVES_TORCH = ("numpy", "__array__", "tolist", "item", "__setitem__", "__get__", "__set__")


def graph_at_arrays(
    batch: TensorDictBase, held: Iterable[tuple[Key, str]]
) -> AbstractContextManager[Any]:
    """The context in which ``held``, each an entry and what the script holds it as, keeps the
    graph of ``batch``; nothing is done where that has none, or it is held as tensors."""
    arrays = any(key == (OBSERVATION,) and what != TENSORS for key, what in held)
    seen = batch.get(OBSERVATION, None) if arrays else None
    if seen is None or not seen.requires_grad:
        return nullcontext()
    return _StandsFor(seen.flatten(0, batch.batch_dims - 1))


class _StandsFor(TorchFunctionMode):
    """Puts ``whole`` ``[all steps, ...]``, or those of its steps that a tensor holds the values of,
    in the place of that tensor."""

    def __init__(self, whole: Tensor) -> None:
        super().__init__()
        self._whole = whole.reshape(len(whole), -1)
        self._places = dict[torch.dtype, dict[bytes, list[int]]]()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The call on tensors with a graph."""
        name, named = getattr(func, "__name__", ""), dict(kwargs or {})
        changes = name.endswith("_") and not name.endswith("__")
        if torch.is_grad_enabled() and not (changes or name in _LEAVES_TORCH or "out" in named):
            args, named = tree_map_only(Tensor, self._graphed, (args, named))
        return func(*args, **named)

    def _graphed(self, value: Tensor) -> Tensor:
        width = self._whole.shape[1]
        if value.requires_grad or value.dtype not in _OF_ARRAYS or not value.numel():
            return value
        where = None if value.numel() % width else self._found(value.detach().reshape(-1, width))
        if where is None:
            return value
        return self._whole[where].reshape(value.shape).to(value.dtype)

    def _found(self, steps: Tensor) -> Tensor | None:
        """Which steps these are. Raises RuntimeError where several show the same."""
        known = self._known(steps.dtype)
        found = [known.get(one.tobytes()) for one in steps.cpu().numpy()]
        if any(one is None for one in found):
            return None
        if len(found) == len(self._whole):  # all of them, in the order that they have
            ordered = [n for n, one in enumerate(found) if one is not None and n in one]
            if len(ordered) == len(found):
                return torch.tensor(ordered, device=self._whole.device)
        if any(one is not None and len(one) > 1 for one in found):
            raise RuntimeError(
                "several steps show the same numbers: which of them an array holds cannot be told"
            )
        return torch.tensor([one[0] for one in found if one], device=self._whole.device)

    def _known(self, kind: torch.dtype) -> dict[bytes, list[int]]:
        if kind not in self._places:
            places = self._places[kind] = {}
            for number, one in enumerate(self._whole.detach().to(kind).cpu().numpy()):
                places.setdefault(one.tobytes(), []).append(number)
        return self._places[kind]
