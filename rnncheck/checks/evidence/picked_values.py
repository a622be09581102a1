"""Which entries of their tensors a function picks at the largest of others: `gather` and
`take_along_dim`, with what `argmax` and `max` gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rnncheck.pipeline.instruments.vmap import is_batched


@dataclass(frozen=True)
class Picked:
    """One such call with one index for each place: ``values`` with the dim that it picks from as
    the last, and the ``scores`` whose largest it picks at, None where it is another index."""

    values: Tensor
    scores: Tensor | None
    graphed: bool


class PickedValues(TorchFunctionMode):
    """Notes copies of them while the context is open, in the order of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = list[Picked]()
        self._largest = list[tuple[Tensor, Tensor]]()  # places of the largest, and what they are of

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Runs what was called, and notes it where it is one of these."""
        given = dict(kwargs or {})
        result = func(*args, **given)
        name = getattr(func, "__name__", "")
        if name in ("argmax", "max"):
            named = dict(zip(("input", "dim"), args, strict=False)) | given
            found = result if name == "argmax" else getattr(result, "indices", None)
            self._note_largest(found, named.get("input"), named.get("dim"))
        elif name == "gather":
            named = dict(zip(("input", "dim", "index"), args, strict=False)) | given
            self._note(named.get("input"), named.get("dim"), named.get("index"))
        elif name == "take_along_dim":
            named = dict(zip(("input", "indices", "dim"), args, strict=False)) | given
            self._note(named.get("input"), named.get("dim"), named.get("indices"))
        return result

    def _note_largest(self, found: object, input: object, dim: object) -> None:
        if not isinstance(found, Tensor) or not isinstance(input, Tensor) or is_batched(input):
            return
        if isinstance(dim, int) and input.ndim >= 3:
            self._largest.append((found, input.detach().movedim(dim, -1).clone()))

    def _note(self, input: object, dim: object, index: object) -> None:
        """Arguments as torch names them."""
        if not isinstance(input, Tensor) or not isinstance(index, Tensor):
            return
        if not isinstance(dim, int) or is_batched(input) or is_batched(index) or input.ndim < 3:
            return
        values, places = input.detach().movedim(dim, -1), index
        if places.ndim != values.ndim or not values.is_floating_point():
            return
        places = places.movedim(dim, -1)
        if places.shape[-1] == 1 and places.shape[:-1] == values.shape[:-1]:
            graphed = input.requires_grad and torch.is_grad_enabled()
            self.seen.append(Picked(values.clone(), self._scores(places.squeeze(-1)), graphed))

    def _scores(self, places: Tensor) -> Tensor | None:
        """What these are the largest of: they lie in the memory that was given for it."""
        memory = places.untyped_storage().data_ptr()
        for found, scores in reversed(self._largest):
            same = found.untyped_storage().data_ptr() == memory and found.numel() == places.numel()
            if same and scores.shape[:-1] == places.shape:
                return scores
        return None
