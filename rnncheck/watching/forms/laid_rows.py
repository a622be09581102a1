"""Rows of steps that a script holds, and what of them is none: what stands behind their ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.watching.forms.recorded_rows import behind_ends
from rnncheck.watching.forms.storages import DONE
from rnncheck.watching.forms.structures import Path


@dataclass(frozen=True)
class LaidRows:
    """Where the steps of a variable were collected, ``found`` ``[rows, steps, 2]``. ``longer``: it
    also holds what the last step showed. ``empty`` ``[rows, steps]`` are zeros behind the ends of
    rows."""

    found: Tensor
    lead: tuple[int, ...]
    time_first: bool
    longer: bool
    empty: Tensor

    def of(self, value: Tensor) -> Tensor | None:
        """``[rows, steps, ...]`` of something of each of these steps; None if it is not that."""
        if tuple(value.shape[: len(self.lead)]) != self.lead:
            return None
        if len(self.lead) == 1:
            return value.unsqueeze(0)
        return value.transpose(0, 1) if self.time_first else value

    def without_last(self, value: Tensor) -> Tensor:
        """The steps, of what also holds what the last one showed."""
        return value.narrow(self.time, 0, self.found.shape[1]) if self.longer else value

    def ahead_of_last(self, value: Tensor) -> Tensor | None:
        """``[rows, steps, ...]`` of what also holds something behind the last step."""
        more = value.ndim > self.time and value.shape[self.time] == self.found.shape[1] + 1
        return self.of(self.without_last(value.detach().cpu())) if self.longer and more else None

    @property
    def time(self) -> int:
        """Which dimension of such a variable is time."""
        return int(not self.time_first and len(self.lead) > 1)

    def part(self, begin: int, count: int, *, longer: bool) -> LaidRows:
        """So many steps of each row."""
        lead = tuple(count if n == self.time else one for n, one in enumerate(self.lead))
        steps = slice(begin, begin + count)
        return LaidRows(self.found[:, steps], lead, self.time_first, longer, self.empty[:, steps])

    def from_second(self, value: Tensor) -> Tensor | None:
        """The same of something that each step has of the one before, from the second on and once
        more behind the last."""
        time = self.time
        if not self.longer or value.ndim < len(self.lead):
            return None
        if value.shape[time] != self.found.shape[1] + 1:
            return None
        first = value.select(time, 0)
        if len(self.lead) == 2 and bool((first != first[:1]).any()):  # no constant edge
            return None
        return self.of(value.narrow(time, 1, self.found.shape[1]))


def empty_steps(
    laid: LaidRows, seen: Tensor, held: Mapping[Path, Tensor], whole: TensorDictBase
) -> Tensor:
    """``[rows, steps]``: the zeros behind the ends of rows, of which ``seen`` ``[rows, steps or one
    more, ...]`` is observed; where something held is one at each step and zero behind the last, or
    behind an episode's, whatever stands there, that tells."""
    zeros = behind_ends((seen != 0).any(-1))[:, int(laid.longer) :]
    masks = [one for one in (_as_mask(laid, value) for value in held.values()) if one is not None]
    fitting = [
        ~one for one in masks if not bool((~one & ~zeros).any()) or _are_cut(one, laid, whole)
    ]
    unknown = zeros & (laid.found[..., 0] < 0)
    return max(fitting, key=lambda one: int(one.sum()), default=unknown)


def _are_cut(mask: Tensor, laid: LaidRows, whole: TensorDictBase) -> bool:
    """Whether every row that the mask ends in has the last step of an episode there."""
    ends, last = ~mask[:, -1], mask.sum(1) - 1
    row, step = laid.found[torch.arange(len(mask)), last].unbind(-1)
    over = whole.get(DONE)[row.clamp_min(0), step.clamp_min(0)].reshape(-1) & (row >= 0)
    return bool(ends.any()) and bool(over[ends].all())


def _as_mask(laid: LaidRows, value: Tensor) -> Tensor | None:
    """``[rows, steps]``: true up to some step of each row, if it is one number of each."""
    steps = laid.of(value.detach().cpu())
    if steps is None or steps.numel() != laid.found.shape[:2].numel():
        return None
    told = steps.reshape(laid.found.shape[:2])
    prefix = bool((told[:, 0] == 1).all()) and bool((told[:, 1:] <= told[:, :-1]).all())
    return told.bool() if prefix and bool(((told == 0) | (told == 1)).all()) else None
