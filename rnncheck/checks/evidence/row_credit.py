"""Whose rewards weigh the steps of a row: its own, or those of another row alone.

Told by layer, since one of them may be trained with its own and another not; and without knowing
how a layer lays out the batch, or which rows are in the minibatch that the loss takes. Where what
is observed in one row is another, the places at which a layer gives something else are that row's.
Where the rewards of all rows move the gradient at these places, its own must do so, be it by a mean
over the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.credited_steps import made_of_steps, rewards
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.layer_gradients import LayerOutputs
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    each_sample,
    loss_of,
    run_loss,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import Key

SEEDS = 6  # under each of them other rows may be drawn; one will do where nothing is
ASKED = 3  # rows under each: chosen, with half of the rows drawn one of them is nearly always
LEAST_PLACES = 8  # places of a layer that must tell it: chosen, no saturated one does
SMALLEST = 1e-6  # share of the largest gradient below which it is rounding


@dataclass(frozen=True)
class RowCredit:
    """``key`` of ``row`` moves nothing at ``count`` places of that row that those of other rows
    move."""

    key: Key
    batch: int
    row: int
    count: int


def row_credit(evidence: Evidence) -> RowCredit | None:
    """The first entry of which a row is weighed with others' alone; None too where the loss takes
    no other numbers."""
    try:
        return _row_credit(evidence)
    except Unanswered:
        return None


def _row_credit(evidence: Evidence) -> RowCredit | None:
    for number, sample in each_sample(evidence)[:1]:
        keys, rows = made_of_steps(evidence, sample), _told_apart(sample)
        if not keys or not rows:
            continue
        for seeded, asked in _seeds(evidence, sample):
            for row in seeded.drawn(rows, asked):
                for key in keys:
                    count = seeded.wrong(key, row)
                    if count >= LEAST_PLACES:
                        return RowCredit(key, number, row, count)
    return None


def _told_apart(sample: Sample) -> list[int]:
    """The rows that no other one is like in ends and in rewards but for their signs, as those of a
    team and of opponents are."""
    columns = [sample.rows.get(key).flatten(2).abs() for key in rewards(sample)]
    columns += [] if sample.flag is None else [sample.flag.unsqueeze(-1)]
    shown = torch.cat([one.double() for one in columns], -1) if columns else torch.zeros(0)
    return [
        row
        for row in sample.valid.any(1).nonzero()[:, 0].tolist()
        if len(shown) > 1 and int((shown == shown[row]).flatten(1).all(1).sum()) == 1
    ]


def _seeds(evidence: Evidence, sample: Sample) -> Iterator[tuple[Seeded, int]]:
    """As many as it takes, each with how many rows are asked: one where nothing that is drawn
    shows."""
    first, second = (Seeded(evidence, sample, seed) for seed in (0, 1))
    if second.gives_as(first):
        yield first, 1
        return
    yield first, ASKED
    yield second, ASKED
    yield from ((Seeded(evidence, sample, seed), ASKED) for seed in range(2, SEEDS))


@dataclass(frozen=True)
class Seeded:
    """Runs of the loss under one seed; a row is the part of the batch that is asked."""

    evidence: Evidence
    sample: Sample
    seed: int

    def drawn(self, rows: list[int], asked: int) -> Iterator[int]:
        """Of so many of ``rows`` those that show at a layer."""
        generator = torch.Generator().manual_seed(29 + self.seed)
        for at in torch.randperm(len(rows), generator=generator)[:asked].tolist():
            if any(one is not None and bool(one.any()) for one in self._places(rows[at])):
                yield rows[at]

    def wrong(self, key: Key, row: int) -> int:
        """At how many places of ``row`` a layer is trained with the entry of others, and not with
        its own; 0 where it cannot be told."""
        given, before = self._base
        own = self._gradients(self.other(row, [key]))
        if not all_same(given, own[0]):  # a network reads it
            return 0
        still = [
            number
            for number, (at, old, mine) in enumerate(
                zip(self._places(row), before, own[1], strict=True)
            )
            if at is not None and old is not None and mine is not None and bool(at.any())
            if not bool((at & moved_at(old, mine)).any())  # by a rank or a mean perhaps
        ]
        return self._moved_by_others(key, row, still) if still else 0

    def _moved_by_others(self, key: Key, row: int, layers: list[int]) -> int:
        """At how many places of ``row`` the entries of all rows move these layers."""
        (given, before), every = self._base, self._every(key)
        if not all_same(given, every[0]):
            return 0
        found = 0
        for number in layers:
            at, old, new = self._places(row)[number], before[number], every[1][number]
            if at is not None and old is not None and new is not None:
                found += int((at & moved_at(old, new)).sum())
        return found

    def gives_as(self, other: Seeded) -> bool:
        """Whether nothing that is drawn shows."""
        return all_same(self._base[0], other._base[0])

    def _every(self, key: Key) -> tuple[list[Tensor], list[Tensor | None]]:
        if key not in self._moved_by:
            self._moved_by[key] = self._gradients(self.other(None, [key]))
        return self._moved_by[key]

    @cached_property
    def _moved_by(self) -> dict[Key, tuple[list[Tensor], list[Tensor | None]]]:
        return {}

    @cached_property
    def _base(self) -> tuple[list[Tensor], list[Tensor | None]]:
        return self._gradients(self.sample.td)

    def _places(self, row: int) -> list[Tensor | None]:
        """By layer where it gives something else if the row shows something else, and does not if
        others do: a mean over all of them, by which the loss normalises, moves every place."""
        if row not in self._shown_at:
            keys = [key for key in observed(self.evidence, self.sample) if key[0] != "next"]
            own = self._moved(self.other(row, keys))
            rest = self.rest(row, keys)
            if rest is not None and any(one is not None and bool(one.any()) for one in own):
                others = self._moved(rest)
                own = [
                    None if at is None or by is None else at & ~by
                    for at, by in zip(own, others, strict=True)
                ]
            self._shown_at[row] = own
        return self._shown_at[row]

    def _moved(self, td: TensorDictBase) -> list[Tensor | None]:
        """By layer where it gives something else on this batch."""
        shown, base = self._outputs(td)[0], self._base[0]
        alike = len(shown) == len(base)
        return [
            bits_differ(old, new).any(-1) if old.shape == new.shape else None
            for old, new in zip(base, shown if alike else base, strict=True)
        ]

    @cached_property
    def _shown_at(self) -> dict[int, list[Tensor | None]]:
        return {}

    def _outputs(self, td: TensorDictBase) -> tuple[list[Tensor], Tensor]:
        """What layers gave, and the total."""
        with LayerOutputs() as noted:
            loss = copied(loss_of(self.evidence))
            run = run_loss(
                self.evidence, self.sample, td, loss=loss, per_element=False, seed=self.seed
            )
        return noted.given, run.total

    def _gradients(self, td: TensorDictBase) -> tuple[list[Tensor], list[Tensor | None]]:
        """What layers gave, and the gradients there."""
        given, total = self._outputs(td)
        asked = [one for one in given if one.requires_grad and total.requires_grad]
        grads = iter(torch.autograd.grad(total, asked, allow_unused=True) if asked else ())
        found = [next(grads) if one.requires_grad and asked else None for one in given]
        detached = [one.detach() for one in given]
        return detached, [None if one is None else one.detach() for one in found]

    def rest(self, row: int, keys: list[Key]) -> TensorDictBase | None:
        """The batch with other values in all rows but this one; None where that tells nothing."""
        mask = self.sample.valid.clone()
        mask[row] = False
        return changed_batch(self.sample, mask, keys)

    def other(self, row: int | None, keys: list[Key]) -> TensorDictBase:
        """The batch with other values in this row, or in all of them."""
        mask = self.sample.valid.clone()
        if row is not None:
            mask[:row], mask[row + 1 :] = False, False
        return changed_batch(self.sample, mask, keys)


def all_same(given: list[Tensor], other: list[Tensor]) -> bool:
    return len(given) == len(other) and all(
        one.shape == two.shape and torch.equal(one, two)
        for one, two in zip(given, other, strict=True)
    )


def moved_at(before: Tensor, after: Tensor) -> Tensor:
    """Where the gradient is another one."""
    largest = torch.maximum(after.abs(), before.abs()).nan_to_num().max()
    return ((after - before).abs().nan_to_num() > SMALLEST * largest).any(-1)
