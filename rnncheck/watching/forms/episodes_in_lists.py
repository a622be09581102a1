"""The pass inside lines that hold their steps in lists with one thing for each whole episode: it
gets no other rows than episodes, as many as there were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.by_numbers import bare
from rnncheck.watching.forms.loss_pass import LossPass
from rnncheck.watching.forms.plain_loss import NamesHeld, lays_rows_first, run_lines
from rnncheck.watching.forms.storages import OfEpisode, OfShare

_START = "is_init"
_OF_ROWS = 3  # dimensions of what a part gives: rows, steps, numbers


class _SideBySide(LossPass):
    """The pass of lines that may lay ``count`` trajectories, all as long, side by side, such as in
    padded rows: what they give is told one behind the other, as the batch has them."""

    def __init__(self, *args: Any, count: int, **named: Any) -> None:
        super().__init__(*args, **named)
        self._count = count
        self._orders = dict[str, bool]()  # by part, whether time comes first in what it gives

    def _laid(self, path: str, values: list[Tensor], rows: int, steps: int) -> Tensor | None:
        found = super()._laid(path, values, rows, steps)
        length, rest = divmod(steps, self._count)
        if found is not None or rest or len(values) != 1 or values[0].ndim < _OF_ROWS:
            return found
        shapes = {False: (self._count, length), True: (length, self._count)}
        fitting = [first for first, lead in shapes.items() if values[0].shape[:2] == lead]
        if len(fitting) == 1:  # else both are as long: as before
            self._orders.setdefault(path, fitting[0])
        if (first := self._orders.get(path)) not in fitting:
            return None
        whole = values[0].transpose(0, 1) if first else values[0]
        return whole.reshape(rows, steps, -1)


class EpisodesInLists:
    """Gives each of the lists' items the same trajectory ``[1, steps]``, and tells what the pass
    makes of the first."""

    of_the_loss = True

    def __init__(self, over: LossPass, count: int) -> None:
        self._over, self._count = over, count

    @property
    def trains_apart(self) -> bool:
        """As of the pass."""
        return self._over.trains_apart

    def __call__(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        """By key, what each part gives at every step."""
        found = self._over(_as_often(batch, self._count))
        return {key: one[:, : batch.shape[1]] for key, one in found.items()}

    def held_parts(self) -> Iterator[tuple[str, Any]]:
        """What it can reach."""
        yield "pass", self._over


def episodes_in_lists(
    loss: Any, parts: Mapping[str, nn.Module], example: TensorDictBase
) -> EpisodesInLists | None:
    """The pass by those ``parts``, of lines that hold nothing of the steps but in such lists, in
    which all episodes of the ``example`` ``[1, steps]`` are, each from its start to its end."""
    lines = bare(loss)
    if not (isinstance(lines, partial) and lines.func is run_lines) or len(example) != 1:
        return None
    function, held, *rest = lines.args
    several = [one for _, _, inner in held for one in inner.values()]
    reaches = {one.reach.begin: one.reach for one in several if isinstance(one, OfEpisode)}
    begins = sorted(reaches)
    if len(begins) < 2 or not all(isinstance(one, OfEpisode) for one in several):
        return None
    ends = [*begins[1:], example.shape[1]]
    whole = all(
        begin + reaches[begin].length == end for begin, end in zip(begins, ends, strict=True)
    )
    starts = example.get(_START)[0].flatten(1).any(1).nonzero().flatten().tolist()
    if not whole or {0, *starts} != set(begins):
        return None
    shares: NamesHeld = [
        (name, value, {path: _share(one, begins) for path, one in inner.items()})
        for name, value, inner in held
    ]
    count, own = len(begins), (function, shares, *rest)
    alike: Callable[[TensorDictBase], Any] = partial(run_lines, *own, copies=count)
    first = _as_often(example[:, : ends[0] - (ends[0] == count)], count)  # to tell steps from rows
    rows_first = lays_rows_first(alike)
    over = _SideBySide(alike, parts, first, time_first=not rows_first, once=True, count=count)
    return EpisodesInLists(over, count)


def _share(one: OfEpisode, begins: list[int]) -> OfShare:
    return OfShare(begins.index(one.reach.begin), len(begins), one.part)


def _as_often(batch: TensorDictBase, count: int) -> TensorDictBase:
    whole: TensorDictBase = torch.cat([batch] * count, 1)
    return whole
