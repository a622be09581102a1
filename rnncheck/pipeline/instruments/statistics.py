"""Means and deviations of what has no gradient, such as those that advantages are normalised with,
held still: what goes through them alone is a statistic of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

# No sums: discounted rewards may be summed up to a return, which is no statistic.
_NAMES = frozenset(
    ("mean", "std", "var", "std_mean", "var_mean", "median", "quantile", "amax", "amin")
)
Statistic = tuple[str, int, tuple[Tensor, ...]]  # of how many numbers, and what it gave
_FEW = 2  # numbers that such a one is of, at least


class HeldStatistics(TorchFunctionMode):
    """While the context is open, the numbers that statistics of more than one number give are noted
    in ``given``; those in ``held``, of a call before, are given instead, in their order, where the
    same is asked of as many. What has a gradient is left alone."""

    def __init__(self, held: Sequence[Statistic] | None = None) -> None:
        super().__init__()
        self.given: list[Statistic] = []
        self._held = held or ()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name not in _NAMES or not _is_statistic(args, found):
            return found
        parts = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        number = len(self.given)
        of = sum(one.numel() for one in args if isinstance(one, Tensor))
        self.given.append((name, of, parts))
        if number >= len(self._held) or self._held[number][:2] != (name, of):
            return found
        held = tuple(one.clone() for one in self._held[number][2])
        return held if isinstance(found, (tuple, list)) else held[0]


def _is_statistic(args: Any, found: Any) -> bool:
    whole = next((one for one in args if isinstance(one, Tensor)), None)
    parts = found if isinstance(found, (tuple, list)) else (found,)
    single = all(isinstance(one, Tensor) and one.numel() == 1 for one in parts)
    return single and whole is not None and whole.numel() >= _FEW and not whole.requires_grad
