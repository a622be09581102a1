"""A policy whose pass over sequences is another function than the one that acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.modules import set_recurrent_mode
from torchrl.modules.tensordict_module import rnn

from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.pipeline.keys import Key, as_key, declared, tensor_items

PassCall = Callable[[TensorDictBase], Any]


class TwoPasses(nn.Module):
    """``acting`` as it steps the env; in recurrent mode ``over_sequences`` runs instead, in the
    ambient mode that the user's own loop has.

    What that gives counts where ``acting`` declares it, or where it is new. ``out_keys`` name the
    tensors of a result without keys; ``time_first`` hands over ``[T, B]``.
    """

    def __init__(
        self,
        acting: nn.Module,
        over_sequences: PassCall,
        out_keys: tuple[Key, ...] = (),
        *,
        time_first: bool = False,
    ) -> None:
        super().__init__()
        self.acting, self.over_sequences = acting, over_sequences
        self._names, self._time_first = out_keys, time_first
        for name in ("in_keys", "out_keys"):
            if hasattr(acting, name):
                setattr(self, name, list(getattr(acting, name)))
        self._tie()

    @property
    def of_the_loss(self) -> bool:
        """Whether the pass is what the loss itself runs on its batches."""
        function = getattr(self.over_sequences, "function", self.over_sequences)
        return bool(getattr(function, "of_the_loss", False))

    @property
    def trains_apart(self) -> bool:
        """Whether the loss has parts that are trained one by one, such as a critic and an actor."""
        function = getattr(self.over_sequences, "function", self.over_sequences)
        return bool(getattr(function, "trains_apart", False))

    @property
    def burnt(self) -> int:
        """How many first steps of a row it runs without a graph."""
        function = getattr(self.over_sequences, "function", self.over_sequences)
        return int(getattr(function, "burnt", 0))

    @property
    def burnt_alone(self) -> int:
        """The same of every trajectory, where it runs each alone."""
        function = getattr(self.over_sequences, "function", self.over_sequences)
        return int(getattr(function, "burnt_alone", 0))

    @property
    def longest(self) -> int | None:
        """How many steps a row may have at most; None where it may have any number."""
        function = getattr(self.over_sequences, "function", self.over_sequences)
        found: int | None = getattr(function, "longest", None)
        return found

    @property
    def in_slices(self) -> bool:
        """Whether longer rows are trained on in slices of as many steps, each from its stored
        state."""
        function = getattr(self.over_sequences, "function", self.over_sequences)
        return bool(getattr(function, "in_slices", False))

    @property
    def from_starts(self) -> bool:
        """Whether the pass is given whole trajectories alone, and no state."""
        function = getattr(self.over_sequences, "function", self.over_sequences)
        return bool(getattr(function, "from_starts", False))

    def forward(self, td: TensorDictBase) -> TensorDictBase:
        """One step of ``acting``, or the pass over ``td``."""
        if not _is_recurrent():
            result: TensorDictBase = self.acting(td)
            return result
        with set_recurrent_mode(None):
            return td.copy().update(self._passed(td))

    def _passed(self, td: TensorDictBase) -> TensorDictBase:
        """What the pass gives on ``td``, in its shape; where it refuses that, it may want rows."""
        refused: Exception | None = None
        for shape in _layouts(td):
            try:
                return self._called(td.reshape(shape)).reshape(td.shape)
            except Exception as error:  # the user's function may raise anything
                refused = refused or error
        assert refused is not None
        raise refused

    def _called(self, td: TensorDictBase) -> TensorDict:
        """The pass on one layout of the batch."""
        swapped = self._time_first and td.ndim > 1
        given = (td.transpose(-2, -1) if swapped else td).contiguous().clone()
        before = dict(tensor_items(given))
        result = self.over_sequences(given)
        found = self._named(given if result is None else result, given.batch_size)
        promised = set(declared(self, "out_keys"))
        new = {
            key: value
            for key, value in found.items()
            if key in promised or key not in before or (result is None and value is not before[key])
        }
        out = TensorDict(new, batch_size=given.batch_size)
        return out.transpose(-2, -1).contiguous() if swapped else out

    def _named(self, result: Any, shape: torch.Size) -> dict[Key, Tensor]:
        """What was given by key, as far as there is a value for each step."""
        if isinstance(result, TensorDictBase):
            found = dict(tensor_items(result))
        elif isinstance(result, dict):
            found = {as_key(key): v for key, v in result.items() if isinstance(v, Tensor)}
        else:
            values = result if isinstance(result, (tuple, list)) else (result,)
            tensors = [value for value in values if isinstance(value, Tensor)]
            if len(tensors) < len(self._names) or not self._names:
                raise TypeError(
                    "the training pass returned no tensordict and no dict: name its tensors in"
                    " `out_keys`"
                )
            found = dict(zip(self._names, tensors, strict=False))
        return {key: v for key, v in found.items() if v.shape[: len(shape)] == shape}

    def _tie(self) -> None:
        """A second model that has a copy of the weights is trained in the place of the first: its
        parameters become the first one's."""
        mine = dict(self.acting.named_parameters())
        for module in self.others():
            theirs = dict(module.named_parameters())
            if theirs.keys() != mine.keys() or any(p is mine[name] for name, p in theirs.items()):
                continue
            if all(torch.equal(p, mine[name]) for name, p in theirs.items()):
                for name in theirs:
                    path, _, last = name.rpartition(".")
                    setattr(module.get_submodule(path), last, mine[name])

    def others(self) -> Iterator[nn.Module]:
        """The modules that the pass reaches beside the acting one. They are no parts of this one:
        what they declare to read and write is the acting module's own."""
        known = {id(part) for part in all_modules(self.acting)}
        for _, module in held_modules(self.over_sequences):
            if id(module) not in known:
                yield module

    def _apply(self, fn: Any, recurse: bool = True) -> TwoPasses:
        """Conversions reach the second model too; what both share is converted once."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        shared = {id(part) for part in all_modules(self.acting)}
        for module in self.others():
            for part in all_modules(module):
                if id(part) not in shared:
                    part._apply(fn, recurse=False)
        return self

    def train(self, mode: bool = True) -> TwoPasses:
        """Modes reach the second model too."""
        super().train(mode)
        for module in self.others():
            module.train(mode)
        return self


def _is_recurrent() -> bool:
    """Whether recurrent mode is on; asked in a way that does not count as the user's module
    asking."""
    manager = rnn.recurrent_mode_state_manager
    return type(manager).get_mode(manager) is True


def _layouts(td: TensorDictBase) -> list[torch.Size]:
    """The shapes in which the pass may want the batch: nearly all are written for ``[B, T]``."""
    rows = torch.Size([td.shape[:-1].numel(), td.shape[-1]])
    return list(dict.fromkeys([rows, td.shape]))
