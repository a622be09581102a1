"""The error of one recurrent module's outputs beside the errors that each precision makes of the
same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.precision.streams import EARLY, Pass, Stream, Written, errors, rerun
from rnncheck.checks.rule import Unanswered
from rnncheck.numerics.rounding import BFLOAT16, BITS, TF32, TF32_BITS, ProductPrecision
from rnncheck.pipeline.keys import Key

NARROW = (torch.bfloat16, torch.float16)
STORED = (
    0.9  # share of the elements that are the exact value in the narrow dtype: it was stored in it
)
ENOUGH = 8  # elements that can tell


@dataclass(frozen=True)
class Level:
    """Relative root mean square errors of one output: as it is, and as each precision makes it."""

    key: Key
    error: float
    honest: float  # float32 throughout
    tf32: float
    bfloat16: float

    APART: ClassVar[float] = (
        64.0  # two precisions are told apart where their errors differ by as much
    )
    LIMIT: ClassVar[float] = 16.0  # times bfloat16's error: beyond it is no rounding

    @property
    def explained(self) -> bool:
        """The error is one that rounding makes, to bfloat16 at worst."""
        return self.error <= self.LIMIT * self.bfloat16


def levels(stream: Stream, one: Pass) -> list[Level]:
    """One per output that is not merely stored in fewer bits."""
    if one.recurrent and stored_states(stream):
        return []  # what a state that is stored in less makes of all later steps is PR903's
    reads, wrote = one.read[:EARLY], one.wrote[:EARLY]
    exact = _again(stream, reads, one)
    kept = {key for key in wrote[0] if stored_in([w[key] for w in wrote], exact, key) is None}
    found = {
        "error": errors(wrote, exact),
        "honest": errors(_again(stream, reads, one, torch.float32), exact),
        "tf32": errors(_again(stream, reads, one, precision=TF32), exact),
        "bfloat16": errors(_again(stream, reads, one, precision=BFLOAT16), exact),
    }
    lowest = _all_in_bfloat16(stream, reads, one, exact)
    keys = [key for key in kept if all(key in part for part in found.values())]
    made = [_level(key, {n: _size(part[key]) for n, part in found.items()}, lowest) for key in keys]
    return [level for level in made if level.tf32 > 0]  # whole numbers have no rounding to judge by


def stored_states(stream: Stream) -> dict[Key, torch.dtype]:
    """The states that the module computes and then writes in fewer bits."""
    exact, found = rerun(stream, stream.steps.read[:EARLY]), {}
    for key in stream.states:
        values = [one[key] for one in stream.steps.wrote[:EARLY] if key in one]
        dtype = stored_in(values, exact, key) if len(values) == EARLY else None
        if dtype is not None:
            found[key] = dtype
    return found


def _level(key: Key, sizes: dict[str, float], lowest: dict[Key, Tensor]) -> Level:
    """What no product rounds (an elementwise recurrence) is judged by a run that is bfloat16
    throughout."""
    worst = _size(lowest[key]) if key in lowest else 0.0
    tf32 = max(sizes["tf32"], worst * 2.0 ** (BITS[torch.bfloat16] - TF32_BITS))
    floor = max(sizes["honest"], 2.0 ** -BITS[torch.float32])
    return Level(key, sizes["error"], floor, tf32, max(sizes["bfloat16"], worst))


def _size(gaps: Tensor) -> float:
    return float(gaps.square().mean().sqrt())


def _again(
    stream: Stream,
    reads: Sequence[TensorDictBase],
    one: Pass,
    dtype: torch.dtype = torch.float64,
    precision: ProductPrecision | None = None,
) -> list[Written]:
    """Step by step from the states that were there; a pass over all steps shows only the first of
    them."""
    return rerun(stream, reads, dtype, precision, chained=one.recurrent)


def _all_in_bfloat16(
    stream: Stream, reads: Sequence[TensorDictBase], one: Pass, exact: Sequence[Written]
) -> dict[Key, Tensor]:
    try:
        return errors(_again(stream, reads, one, torch.bfloat16), exact)
    except Unanswered:  # a module of float32 constants does not run in bfloat16
        return {}


def stored_in(values: Sequence[Tensor], exact: Sequence[Written], key: Key) -> torch.dtype | None:
    """The narrow dtype that ``values`` were computed exactly for and then rounded to, if there is
    one."""
    if key not in exact[0]:
        return None
    given = torch.cat([value.detach().cpu().double().reshape(-1) for value in values])
    right = torch.cat([one[key].reshape(-1) for one in exact])
    for dtype in NARROW:
        if BITS[dtype] < BITS[torch.float32] and rounded_to(given, right, dtype):
            return dtype
    return None


def rounded_to(given: Tensor, right: Tensor, dtype: torch.dtype) -> bool:
    """``given`` is ``right`` in ``dtype``, judged on the elements whose rounding can be seen."""
    target = right.to(dtype).double()
    telling = (target - right).abs() > right.abs() * 2.0 ** -(BITS[dtype] + 4)
    if int(telling.sum()) < ENOUGH:
        return False
    return float((given == target)[telling].double().mean()) >= STORED
