"""A training pass that is written for as many steps as the script has, ``for t in range(STEPS)``,
on batches of fewer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.subject.modes import measuring

_START = "is_init"
_FEWEST = 2  # steps: no more than a burn-in has


class OfOneSize:
    """Fills batches up to the ``rows`` and ``steps`` of the ``example``, with steps of it that
    begin anew behind the batch's own, and leaves out what the pass gives there. More rows are taken
    in turn; more steps than the example has are left to the pass."""

    of_the_loss = True

    def __init__(self, over: Any, example: TensorDictBase, *, in_slices: bool = False) -> None:
        self._over, self._example, self.in_slices = over, example, in_slices
        self.longest = int(example.shape[1])  # rows that it runs on, in steps

    @property
    def trains_apart(self) -> bool:
        """As of the pass."""
        return bool(getattr(self._over, "trains_apart", False))

    @property
    def burnt(self) -> int:
        """As of the pass."""
        return int(getattr(self._over, "burnt", 0))

    def __call__(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        """What the pass gives at each step of the batch."""
        parts = [self._of_some(part) for part in batch.split(len(self._example))]
        return {key: torch.cat([one[key] for one in parts]) for key in parts[0]}

    def _of_some(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        rows, steps = batch.shape[:2]
        found: dict[Key, Tensor] = self._over(self._filled(batch))
        return {key: value[:rows, :steps] for key, value in found.items()}

    def _filled(self, batch: TensorDictBase) -> TensorDictBase:
        rows, steps = batch.shape[:2]
        more = self._example.select(*batch.keys(True, True), strict=False)
        whole = batch.select(*more.keys(True, True)).clone()
        if steps < more.shape[1]:
            behind = _like(more[:rows, : more.shape[1] - steps], whole)
            behind.get(_START)[:, 0] = True
            whole = torch.cat([whole, behind], 1)
        if rows < len(more) and steps > more.shape[1]:
            whole = whole[torch.arange(len(more)) % rows]  # the example has no rows as long
        elif rows < len(more):
            whole = torch.cat([whole, _like(more[rows:, : whole.shape[1]], whole)])
        return whole

    def held_parts(self) -> Iterator[tuple[str, Any]]:
        """What it can reach."""
        yield "pass", self._over


def _like(td: TensorDictBase, other: TensorDictBase) -> TensorDictBase:
    """A copy with each entry in the type, the form and on the device that the other one has."""

    def made(mine: Tensor, theirs: Tensor) -> Tensor:
        return mine.to(theirs, copy=True).reshape(theirs.shape)

    return td.apply(made, other[:1, :1].expand(td.shape))


def of_its_size(
    over: Any, example: TensorDictBase, *, at_most: bool = False, in_slices: bool = False
) -> Any:
    """The pass, for batches of any size: as it is where it runs on fewer steps and on fewer rows;
    with ``at_most`` also where it runs on more steps. Where longer rows are trained ``in_slices``,
    they are run in such."""
    if example.batch_dims < 2 or _START not in example:
        return over
    rows, steps = example.shape[:2]
    fewer = [example[:less] for less in {1, rows - 1} if less]  # one row fits itself to more
    if steps < 2 or not runs(over, example):
        return over
    longer = at_most and runs(over, torch.cat([example, example], 1))
    if not longer:
        fewer.append(example[:, : steps // 2])
    if steps > _FEWEST:
        fewer.append(example[:, :_FEWEST])
    cut = in_slices and not longer
    if not cut and all(runs(over, one) for one in fewer):
        return over
    return OfOneSize(over, example, in_slices=cut)


def runs(over: Any, batch: TensorDictBase) -> bool:
    """Whether the pass gives something of the batch."""
    try:
        with measuring(recurrent=None):
            over(batch.clone())
    except Exception:  # the user's lines may raise anything
        return False
    return True
