"""A loss of the user's as it was found at one update, and what the next ones add to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from rnncheck.pipeline.subject.modes import Mode, in_mode_of
from rnncheck.watching.forms.by_numbers import plain_numbers, with_numbers
from rnncheck.watching.seams.graphs import weights_in
from rnncheck.watching.seams.held_batches import HeldBatches, holds_tensors, with_the_rest
from rnncheck.watching.seams.owners import cloned
from rnncheck.watching.seen import Called

_MOST_WAYS = 6  # calls that are told apart by numbers; chosen: actors wait for every second update
_PLAIN = (bool, int, float)


@dataclass(frozen=True)
class FoundLoss:
    """What makes a loss of ``batch``, the name of one that is ``held``. ``own`` tells one such from
    another."""

    loss: Any
    held: HeldBatches
    batch: str
    own: Any
    argument: str = ""
    last: int = 0
    later: Sequence[Any] = ()  # the same from later on, to where the batch was bound last
    taken: Mapping[str, torch.Tensor] = field(default_factory=dict)  # out of the batch, by key
    numbers: Sequence[Mapping[str, Any]] = ()  # that it reads, by update
    way: Any = None  # the same with the numbers that its owner held
    begun: Mapping[str, Any] = field(default_factory=dict)  # what lines began with, by name

    @property
    def beside(self) -> dict[str, Any] | None:
        """What it was given beside the batch that may be states; None of lines that begin with
        none."""
        given = self.held.arguments if self.argument else self.begun
        found = {name: cloned(one) for name, one in given.items() if holds_tensors(one)}
        return found if self.argument or found else None


def of_a_function(function: Any, held: HeldBatches, name: str, mode: Mode, own: Any) -> FoundLoss:
    """The function with what it was given beside the batch, and the numbers among that and in the
    object whose method it is."""
    owner = getattr(function, "__self__", None)
    given = with_the_rest(function, held, name)
    numbers = plain_numbers(owner)
    handed = {key: one for key, one in held.arguments.items() if type(one) in _PLAIN}
    return FoundLoss(
        in_mode_of(mode, given),
        held,
        name,
        own,
        argument=name,
        numbers=[handed, numbers],
        way=in_mode_of(mode, with_numbers(given, owner, numbers)),
    )


def further(known: Called, found: FoundLoss) -> None:
    """The loss was called again, maybe with other numbers."""
    if found.argument:
        if found.numbers not in known.told_by and len(known.ways) < _MOST_WAYS:
            known.told_by.append(found.numbers)
            known.ways.append(found.way)
        return
    known.numbers = found.numbers or known.numbers
    if found.last > known.last:  # of lines that go on to another `backward`: all of them
        known.module, known.last, known.later = found.loss, found.last, found.later


def note_whose(found: Sequence[Called], loss: Any, acting: set[int]) -> None:
    """Of losses that were found with this call of ``backward``, whether it leads to weights that
    act."""
    weights = weights_in(loss, ()) if found else None
    for one in found:
        one.of_who_acts = bool(weights and weights & acting)
