"""A gradient at observations that a script holds as arrays: what torch makes of such an array again
stands for the tensor that the array was made of, wherever the script computes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from rnncheck.errors import UntoldError
from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.held_as import TENSORS
from rnncheck.watching.forms.shown_entries import shown_keys

Array = np.ndarray[Any, np.dtype[Any]]
_MOST_COMPARED = 4_000_000  # numbers: chosen, so that a picture is not searched
_OF_ARRAYS = (torch.float32, torch.float64)
_NONE = -1  # no step, behind all of them
_COPIES = ("tensor", "as_tensor")  # of an array, which another of its functions may not share
_LEAVES_TORCH = ("numpy", "__array__", "tolist", "item", "__setitem__", "__get__", "__set__")


def graph_at_arrays(
    batch: TensorDictBase, held: Iterable[tuple[Key, str]], copies: int = 1
) -> AbstractContextManager[Any]:
    """The context in which ``held``, each an entry and what the script holds it as, keeps the
    graph of ``batch``; nothing is done where that has none, or it is held as tensors. Of so many
    ``copies`` that its one row consists of each stands for all: they have the same graph."""
    arrays = {key for key, what in held if what != TENSORS}
    entries = (batch.get(key, None) for key in shown_keys(batch) if key in arrays)
    shown = [one for one in entries if one is not None and one.requires_grad]
    return (
        _StandsFor([_Entry(one, batch.shape, copies) for one in shown]) if shown else nullcontext()
    )


def _is_of_an_array(value: Tensor) -> bool:
    """Whether it may be what torch made of one: it has no graph, and numbers of that kind."""
    return not value.requires_grad and value.dtype in _OF_ARRAYS and value.numel() > 0


def _may_stand_for(value: Any) -> bool:
    """Whether it is a tensor that may be of an array, or has one somewhere inside."""
    if isinstance(value, Tensor):
        return _is_of_an_array(value)
    if isinstance(value, Mapping):
        return any(map(_may_stand_for, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_may_stand_for, value))


class _StandsFor(TorchFunctionMode):
    """Puts entries, or those of their steps that a tensor holds the values of, in the place of that
    tensor."""

    def __init__(self, entries: Sequence[_Entry]) -> None:
        super().__init__()
        self._entries = entries

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The call on tensors with a graph."""
        name, named = getattr(func, "__name__", ""), dict(kwargs or {})
        if name in _COPIES and args and isinstance(args[0], np.ndarray):
            return self._made_of(args[0], func(*args, **named))
        changes = name.endswith("_") and not name.endswith("__")
        leaves = changes or name in _LEAVES_TORCH or "out" in named
        if torch.is_grad_enabled() and not leaves and _may_stand_for((args, named)):
            args, named = tree_map_only(Tensor, self._graphed, (args, named))
        return func(*args, **named)

    def _made_of(self, array: Array, made: Tensor) -> Tensor:
        """What torch made of an array: where that lies in the steps, these."""
        if made.dtype not in _OF_ARRAYS:
            return made
        found = next((one for e in self._entries if (one := e.lying_at(array)) is not None), None)
        return made if found is None else found.reshape(made.shape).to(made)

    def _graphed(self, value: Tensor) -> Tensor:
        if not _is_of_an_array(value):
            return value
        given = value.detach().cpu().numpy()
        for entry in self._entries:
            if (found := entry.held_by(given)) is not None:
                return found.reshape(value.shape).to(value)
        return value


class _Entry:
    """An entry ``whole`` ``[*batch, ...]``, which may be the same several times over."""

    def __init__(self, whole: Tensor, batch: torch.Size, copies: int) -> None:
        self._whole, self._batch = whole.reshape(batch.numel(), -1).contiguous(), batch
        self._array: Array = self._whole.detach().cpu().numpy()
        self._own = len(self._array) // copies
        self._as_kinds = dict[np.dtype[Any], Array]()
        self._known = dict[np.dtype[Any], dict[bytes, list[int]]]()

    def lying_at(self, array: Array) -> Tensor | None:
        """The steps whose memory it is."""
        whole = self._array
        width, begin = whole.strides[0] or 1, array.ctypes.data - whole.ctypes.data
        inside = 0 <= begin < whole.nbytes and begin % width == 0 and array.nbytes % width == 0
        if not inside or array.dtype != whole.dtype or not array.flags.c_contiguous:
            return None
        return self._whole[begin // width : (begin + array.nbytes) // width]

    def held_by(self, given: Array) -> Tensor | None:
        """What an array of the same numbers holds of it, with the graph."""
        if (same := self.lying_at(given)) is not None:
            return same
        where = self._whole_steps(given)
        if where is not None:
            return self._and_none()[where] if _NONE in where else self._whole[where]
        places = self._some_numbers(given)
        return None if places is None else self._whole[places[0], places[1]]

    def _whole_steps(self, given: Array) -> list[int] | None:
        """Which steps these are, all that each shows; none where a row is filled up with zeros.
        Raises UntoldError where several show the same."""
        width = self._whole.shape[1]
        if given.size % width:
            return None
        rows = given.reshape(-1, width)
        if (every := self._all_steps(rows)) is not None:
            return every
        known, found = self._places(given.dtype), list[list[int]]()
        for one in rows:  # most arrays hold something else, which the first row tells
            places = known.get(one.tobytes())
            if places and _tells(one):
                found.append(places)
            elif one.any():
                return None
            else:
                found.append([_NONE])
        if all(one == [_NONE] for one in found):
            return None
        if any(len(one) > 1 for one in found) and (line := self._one_line(rows)) is not None:
            return line
        if any(len(one) > 1 for one in found):
            raise UntoldError(
                "several steps show the same numbers: which of them an array holds cannot be told"
            )
        return [one[0] for one in found]

    def _and_none(self) -> Tensor:
        """All steps, and what rows are filled up with."""
        return torch.cat([self._whole, torch.zeros_like(self._whole[:1])])

    def _all_steps(self, rows: Array) -> list[int] | None:
        """All of them, where the rows are these in the order that they have, or time first."""
        whole = self._numbers(rows.dtype)
        if rows.shape != whole.shape or not (rows != rows.flat[0]).any():
            return None
        order = torch.arange(len(rows)).reshape(self._batch)
        orders = (order, order.transpose(0, 1)) if order.ndim > 1 else (order,)
        tried = (one.flatten().tolist() for one in orders)
        return next((one for one in tried if (rows == whole[one]).all()), None)

    def _one_line(self, rows: Array) -> list[int] | None:
        """One step of each row of the batch, or all steps of one, where the array holds no other's:
        single steps may show the same."""
        if len(self._batch) != 2 or len(rows) == 1:
            return None
        order = torch.arange(len(self._whole)).reshape(self._batch)
        whole = self._numbers(rows.dtype)
        lines = [one for one in (*order.T, *order) if len(one) == len(rows)]
        same = [one.tolist() for one in lines if (whole[one.numpy()] == rows).all()]
        return same[0] if len(same) == 1 else None

    def _some_numbers(self, given: Array) -> tuple[Tensor, Tensor] | None:
        """The steps and the places in them, where each row holds some of the numbers of one step,
        such as positions without velocities."""
        whole = self._numbers(given.dtype)[: self._own]
        count = given.shape[-1] if given.ndim else 0
        if not 0 < count < whole.shape[1] or given.size * whole.size > _MOST_COMPARED:
            return None
        steps, columns = list[int](), list[list[int]]()
        for row in given.reshape(-1, count):
            same = whole[:, :, None] == row
            fitting = same.any(1).all(1).nonzero()[0]
            chosen = same[fitting[0]].argmax(0).tolist() if len(fitting) == 1 else []
            if not chosen or len(set(chosen)) < count or not _tells(row):
                return None
            steps.append(int(fitting[0]))
            columns.append(chosen)
        return torch.tensor(steps).unsqueeze(1), torch.tensor(columns)

    def _numbers(self, kind: np.dtype[Any]) -> Array:
        if kind not in self._as_kinds:
            self._as_kinds[kind] = self._array.astype(kind, copy=False)
        return self._as_kinds[kind]

    def _places(self, kind: np.dtype[Any]) -> dict[bytes, list[int]]:
        if kind not in self._known:
            places = self._known[kind] = {}
            for number, one in enumerate(self._numbers(kind)[: self._own]):
                places.setdefault(one.tobytes(), []).append(number)
        return self._known[kind]


def _tells(row: Array) -> bool:
    """Not of zeros and ones alone, which flags, states and one-hot actions are as well."""
    return bool((~np.isin(row, (-1.0, 0.0, 1.0))).any())
