"""What the backends are run on: rows with resets in the places that go wrong, and the states stored
beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rnncheck.pipeline.backends.facts import Facts

CASE_SEED = 20_07  # any fixed number
# Small on purpose: Triton's interpreter runs them too. Chosen: odd, no multiple of a block, and
# with room for a reset at the first, at the last and at several steps between.
_STEPS = 7
SOME = 0.3  # of the steps are resets where they lie anywhere; chosen: two of seven


@dataclass(frozen=True)
class Case:
    """``inputs`` ``[rows, steps, features]``, ``starts`` ``[rows, steps]`` and the state stored at
    every step, ``[rows, steps, layers, hidden]`` each, in float32 (or wider). ``kinds`` says where
    each row's resets lie."""

    name: str
    inputs: Tensor
    starts: Tensor
    stored: tuple[Tensor, ...]
    kinds: tuple[str, ...] = ()

    @property
    def ends(self) -> Tensor:
        """The last step of every segment, ``[rows, steps]``."""
        return torch.cat([self.starts[:, 1:], torch.ones_like(self.starts[:, :1])], 1)

    @property
    def shape(self) -> str:
        """``3x7``: rows and steps."""
        return f"{self.starts.shape[0]}x{self.starts.shape[1]}"

    def kind(self, row: int) -> str:
        """Where the resets of a row lie, in words."""
        return self.kinds[row] if self.kinds else "resets as they were recorded"


_StartsOfRow = Callable[[int, torch.Generator], Tensor]  # steps -> starts of one row


def _none(steps: int, draw: torch.Generator) -> Tensor:
    return torch.zeros(steps, dtype=torch.bool)


def _at_first(steps: int, draw: torch.Generator) -> Tensor:
    return torch.arange(steps) == 0


def _everywhere(steps: int, draw: torch.Generator) -> Tensor:
    return torch.ones(steps, dtype=torch.bool)


def _at_last(steps: int, draw: torch.Generator) -> Tensor:
    return torch.arange(steps) == steps - 1


def _anywhere(steps: int, draw: torch.Generator) -> Tensor:
    found = torch.rand(steps, generator=draw) < SOME
    found[steps // 2] = True  # at least one
    return found


PLACES: dict[str, _StartsOfRow] = {
    "no reset": _none,
    "a reset at step 0": _at_first,
    "a reset at every step": _everywhere,
    "a reset at the last step": _at_last,
    "resets anywhere": _anywhere,
}
_ALL_KINDS = (*PLACES, "resets anywhere")


def standard_cases(facts: Facts, scale: float = 1.0) -> list[Case]:
    """Resets in every place, one row, one step, and tensors that are not contiguous.

    ``scale`` is the spread of the inputs. The rows of a case differ in their resets, so that one
    run of a backend shows them all.
    """
    draw = torch.Generator().manual_seed(CASE_SEED)
    rows = _case(facts, "resets in all places", _ALL_KINDS, _STEPS, scale, draw)
    return [
        rows,
        _case(facts, "one row", ("resets anywhere",), _STEPS, scale, draw),
        _case(facts, "one step", ("no reset", "a reset at step 0"), 1, scale, draw),
        strided(_case(facts, "not contiguous", ("resets anywhere",) * 3, _STEPS, scale, draw)),
    ]


def short_case(facts: Facts) -> Case:
    """Resets in every place over few steps: for what is slow to start."""
    draw = torch.Generator().manual_seed(CASE_SEED)
    return _case(facts, "resets in all places", _ALL_KINDS, 4, 1.0, draw)


def _case(
    facts: Facts,
    name: str,
    kinds: tuple[str, ...],
    steps: int,
    scale: float,
    draw: torch.Generator,
) -> Case:
    shape = (len(kinds), steps)
    inputs = scale * torch.randn(*shape, facts.input_size, generator=draw)
    stored = tuple(torch.randn(*shape, *s, generator=draw).tanh() for s in facts.state_shapes)
    starts = torch.stack([PLACES[kind](steps, draw) for kind in kinds])
    return Case(name, inputs, starts, stored, kinds)


def strided(case: Case) -> Case:
    """The same values in time-major storage: views that are not contiguous."""
    inputs, starts = _time_major(case.inputs), _time_major(case.starts)
    return replace(
        case, inputs=inputs, starts=starts, stored=tuple(_time_major(s) for s in case.stored)
    )


def _time_major(value: Tensor) -> Tensor:
    return value.transpose(0, 1).contiguous().transpose(0, 1)


def other_sizes(facts: Facts) -> Iterator[Facts]:
    """Modules of the same kind whose hidden size is no power of two, one of them with several
    layers."""
    for hidden, layers, features in ((5, 2, 3), (17, 1, 4)):
        yield Facts(facts.kind, features, hidden, layers, facts.bias)
