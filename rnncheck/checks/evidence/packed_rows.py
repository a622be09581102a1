"""Steps that a packed sequence fills in where it is laid out in rows again: layers behind a
recurrent one get zeros there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rnncheck.pipeline.placing import on_cpu

_DIMS = 3  # rows, steps, features


@dataclass(frozen=True)
class FilledInput:
    """What a layer was given, ``[rows, steps, features]``, or with the steps first, the zeros that
    were added to it, and which of its steps ``[rows, steps]`` were filled in."""

    x: Tensor
    probe: Tensor
    blank: Tensor
    time_first: bool


class PackedRows:
    """Notes the lengths of packed rows, and what layers are given of these behind."""

    def __init__(self) -> None:
        self._blanks = list[Tensor]()
        self._found = list[FilledInput]()

    def packed(self, given: PackedSequence) -> None:
        """A recurrent layer is given these."""
        sizes = on_cpu(given.batch_sizes)
        order = torch.arange(int(sizes[0]))
        blank = sizes <= order.unsqueeze(1)  # [rows, steps], the longest row first
        back = given.unsorted_indices
        self._blanks.append(blank if back is None else blank[on_cpu(back)])

    def probed(self, layer: nn.Module, given: Tensor) -> Tensor | None:
        """What a layer without parts is given, with a probe, if it has such rows."""
        plain = given.ndim == _DIMS and given.is_floating_point() and not layer._modules
        for blank in reversed(self._blanks if plain else []):
            for time_first in (False, True):
                there = blank.T if time_first else blank
                if given.shape[:2] == there.shape and bool(there.any()):
                    if bool(on_cpu(given.detach())[there].any()):
                        continue  # another layer made something of the zeros
                    probe = torch.zeros_like(given, requires_grad=True)
                    x = on_cpu(given.detach())
                    x = x.transpose(0, 1) if time_first else x
                    self._found.append(FilledInput(x, probe, blank, time_first))
                    return given + probe
        return None

    def __iter__(self) -> Iterator[FilledInput]:
        return iter(self._found)
