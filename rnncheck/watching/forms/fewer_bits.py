"""What an env shows in more bits than a script keeps of it: simulators of one's own compute in
doubles, networks in floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.watching.forms.plain_calls import OBSERVATION
from rnncheck.watching.forms.time_axis import known_places

Places = Mapping[bytes, tuple[int, int]]


def in_bits_of(held: Tensor, seen: Tensor) -> Tensor:
    """``seen``, rounded as ``held`` is if that has fewer bits."""
    if not (held.is_floating_point() and seen.is_floating_point()):
        return seen
    fewer = torch.finfo(held.dtype).eps > torch.finfo(seen.dtype).eps
    return seen.to(held.dtype) if fewer else seen


def observed_in_bits_of(held: Tensor, acted: TensorDictBase) -> TensorDictBase:
    """The steps ``acted``, with what was observed rounded so."""
    seen = acted.get(OBSERVATION)
    rounded = in_bits_of(held, seen)
    return acted if rounded is seen else acted.clone(recurse=False).set(OBSERVATION, rounded)


@dataclass(frozen=True)
class ObservedSteps:
    """What was observed at the steps ``acted``, and where, in as many bits as a script has."""

    acted: TensorDictBase
    _known: dict[torch.dtype, tuple[Tensor, Places]] = field(default_factory=dict)

    def like(self, held: Tensor) -> tuple[Tensor, Places]:
        """``[rows, steps, ...]``, and row and step of what one of them alone shows."""
        acted = observed_in_bits_of(held, self.acted)
        seen = acted.get(OBSERVATION)
        if seen.dtype not in self._known:
            self._known[seen.dtype] = seen, known_places((OBSERVATION,), [acted])
        return self._known[seen.dtype]


def with_all_bits(held: Tensor, collected: Tensor) -> Tensor:
    """A tensor of its own of what is ``held``, with all bits that were ``collected`` where it is
    that, rounded."""
    rounded = in_bits_of(held, collected)
    own = held.to(collected.dtype, copy=True)
    return own if rounded is collected else torch.where(rounded == held, collected, own)
