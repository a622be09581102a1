"""Steps of a training batch that carry no number, recognised by what they hold.

Candidates for a step are the collected steps whose steady entries (what a step hands on, such as
observations) it repeats. Where these are several, as with tokens, the row decides: the assignment
is taken that keeps the most other entries equal and the most neighbours consecutive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.numerics.bits import value_bits
from rnncheck.pipeline.keys import Key, tensor_keys

# What a consecutive pair of steps counts beside the share (0 to 1) of other entries that are equal:
# less than the entries of a whole step, so that shuffled steps are not taken for a sequence; more
# than one entry, so that a state which replay changed does not hide which step it was.
_CONSECUTIVE = 0.5


def recognised(
    rows: TensorDictBase,
    columns: dict[Key, Tensor],
    steady: Sequence[Key],
    successor: Tensor,
    valid: Tensor,
    there: Tensor | None = None,
) -> Tensor:
    """Numbers of the collected steps ``[rows, steps]`` that ``rows`` holds, -1 where unknown.

    ``columns`` hold the entries of all collected steps ``[collected, ...]``, ``successor`` the
    number of the step behind each, -1 where there is none; padding is not ``valid`` ``[collected]``
    and no candidate. Steps of ``rows`` that are not ``there`` are padding.
    """
    given, known = _codes(rows, columns, steady)
    given = given if there is None else torch.where(there, given, -1)
    known = torch.where(valid, known, -1)
    first: dict[int, int] = {}
    more = set[int]()
    for number, code in enumerate(known.tolist()):
        if first.setdefault(code, number) != number:
            more.add(code)
    first.pop(-1, None)
    ids = given.clone().apply_(lambda code: first.get(code, -1))
    several = (given >= 0) & given.clone().apply_(lambda code: code in more).bool()
    others = _others(rows, columns, steady) if bool(several.any()) else []
    shared = [_codes(rows, columns, [key]) for key in others]
    for row in several.any(1).nonzero().flatten().tolist():
        candidate = (given[row, :, None] == known) & valid
        equal = [mine[row, :, None] == theirs for mine, theirs in shared]
        share = torch.stack(equal).double().mean(0) if equal else candidate.double()
        ids[row] = _best(candidate, share, successor)
    return ids


def _others(rows: TensorDictBase, columns: dict[Key, Tensor], steady: Sequence[Key]) -> list[Key]:
    shape = rows.batch_size
    present = {key for key in tensor_keys(rows) if rows.get(key).shape[: len(shape)] == shape}
    return [key for key in columns if key in present and key not in steady]


def _codes(
    rows: TensorDictBase, columns: dict[Key, Tensor], keys: Sequence[Key]
) -> tuple[Tensor, Tensor]:
    """A number for what each step of ``rows`` and each collected step holds, the same for the same
    bits; -1 in ``rows`` for what no collected step holds."""
    numbers: dict[bytes, int] = defaultdict(lambda: len(numbers))
    known = [numbers[one] for one in _prints([columns[key] for key in keys])]
    flat = [rows.get(key).flatten(0, 1) for key in keys]
    given = [numbers.get(one, -1) for one in _prints(flat)]
    return torch.tensor(given).view(rows.batch_size), torch.tensor(known)


def _prints(values: Sequence[Tensor]) -> list[bytes]:
    arrays = [value_bits(value).numpy() for value in values]
    return [b"".join(array[n].tobytes() for array in arrays) for n in range(len(arrays[0]))]


def _best(candidate: Tensor, share: Tensor, successor: Tensor) -> Tensor:
    """The collected step of each step of a row, by dynamic programming from left to right.

    ``candidate`` and ``share`` are ``[steps, collected]``: which may be it, and how many of its
    other entries are equal. A step without a candidate is -1 and costs nothing.
    """
    before = torch.full_like(successor, -1)
    has = successor >= 0
    before[successor[has]] = has.nonzero().flatten()
    told = candidate.any(1).nonzero().flatten().tolist()
    whence = torch.full((len(told), len(successor)), -1)
    total = torch.zeros(len(successor), dtype=torch.double)
    for place, t in enumerate(told):
        best, number = total.max(0)
        follows = (before >= 0) & (place > 0 and told[place - 1] == t - 1)
        linked = torch.where(follows, total[before.clamp_min(0)] + _CONSECUTIVE, -torch.inf)
        whence[place] = torch.where(linked > best, before, number)
        total = torch.where(candidate[t], torch.maximum(linked, best) + share[t], -torch.inf)
    ids, last = torch.full((len(candidate),), -1), int(total.argmax())
    for place in reversed(range(len(told))):
        ids[told[place]] = last
        last = int(whence[place, last])
    return ids
