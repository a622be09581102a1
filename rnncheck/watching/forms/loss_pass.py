"""The pass over training sequences that a loss of the user's makes inside itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import Key, tensor_items
from rnncheck.pipeline.placing import place_of, placed
from rnncheck.watching.forms.held_as import Scale
from rnncheck.watching.forms.part_outputs import (
    PartOutputs,
    all_at_once,
    behind_burn_in,
    over_steps,
    part_key,
    step_by_step,
)
from rnncheck.watching.forms.plain_calls import MASK_OF_ROWS


class LossPass:
    """Runs the loss on a batch: the pass is what parts of the policy give meanwhile.

    ``example`` is a batch that the script trained on, ``[rows, steps]``: entries that the loss
    reads and another batch lacks, such as advantages, are taken from there. They move no output
    of the policy. ``once``: a part that runs more or less than once for each step, such as on the
    next steps as well, tells nothing. ``shown`` are entries that are others of the step before,
    which the loss may read in their place: these follow them. Of ``scales`` they are multiples of
    these.
    """

    of_the_loss = True  # what is true of this pass is true of the one inside the loss

    def __init__(
        self,
        loss: Callable[[TensorDictBase], Any],
        parts: Mapping[str, nn.Module],
        example: TensorDictBase,
        *,
        time_first: bool,
        once: bool = False,
        shown: Mapping[Key, Key] | None = None,
        scales: Mapping[Key, Scale] | None = None,
        from_starts: bool = False,
    ) -> None:
        self._loss, self._parts, self._example = loss, dict(parts), example
        self._time_first, self._once, self._shown = time_first, once, dict(shown or {})
        self._scales = dict(scales or {})
        self.from_starts = from_starts  # whatever state a batch has, a row begins with none
        self.trains_apart = False  # in several losses, each with a `backward` of its own
        self.burnt = 0  # first steps that it runs without a graph
        self._more = dict[str, bool]()  # parts that run over T+1 steps of the example, by path
        self._each = dict[str, bool]()  # parts that run once for each of them
        self._told: set[Key] | None = None  # what parts give for each step of the example

    def __call__(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        """By key, what each part gives at every step of ``batch``. Lines that were seen on one row
        alone get one row after the other."""
        if self._told is None:
            self._told = self._of_the_example()
        if self._once and len(self._example) == 1 < len(batch):
            rows = [self._at_once(batch[n : n + 1]) for n in range(len(batch))]
            return {key: torch.cat([one[key] for one in rows]) for key in rows[0]}
        return self._at_once(batch)

    def _of_the_example(self) -> set[Key]:
        """Of no others anything is told: what is laid out otherwise there, as by minibatches in an
        order of their own, may have the form of a smaller batch by chance."""
        with torch.no_grad():
            return set(self._at_once(self._example))

    def _at_once(self, batch: TensorDictBase) -> dict[Key, Tensor]:
        td = placed(self._like_the_example(batch), place_of(self._example))
        with torch.enable_grad(), PartOutputs(self._parts) as noted:
            loss = OwnLoss(self._loss, {})
            loss(td)
        self.trains_apart = loss.backwards > 1
        rows, steps = td.shape[:-1].numel(), td.shape[-1]
        found = {}
        for path, values in noted.given.items():
            trained = [value for value in values if value.requires_grad]
            trained = _first_round(trained, steps) if self._once else trained
            laid = None
            if not self._once or len(trained) in (1, steps, steps + 1):
                laid = self._laid(path, trained or values, rows, steps)
            if laid is None:
                laid = self._behind_burn_in(values, rows, steps)
            if laid is not None:
                whole = laid.reshape(*td.shape, *laid.shape[2:])
                whole = placed(whole, place_of(batch))
                found[part_key(path)] = whole if torch.is_grad_enabled() else whole.detach()
        if self._told is not None:
            found = {key: one for key, one in found.items() if key in self._told}
        if not found:
            raise RuntimeError("no part of the policy gave anything for each step of the batch")
        return found

    def _laid(self, path: str, values: list[Tensor], rows: int, steps: int) -> Tensor | None:
        """``[rows, steps, ...]``; without the last of T+1 steps, which is what was observed behind
        the others."""
        if self._more.get(path):
            more = self._over(path, values, rows, steps + 1)
            return None if more is None else more[:, :steps]
        if self._once and path not in self._each:
            at_once = (
                all_at_once(values, rows, count, time_first=self._time_first)
                for count in (steps, steps + 1)
            )
            self._each[path] = all(one is None for one in at_once)
        laid = self._over(path, values, rows, steps)
        if self._once and laid is None:
            more = self._over(path, values, rows, steps + 1)
            return None if more is None else more[:, :steps]
        if path in self._more or self._once:
            return laid
        self._more[path] = laid is None
        whole = all_at_once(values, rows, steps + (laid is None), time_first=self._time_first)
        self._each[path] = whole is None
        return laid if laid is not None else self._laid(path, values, rows, steps)

    def _over(self, path: str, values: list[Tensor], rows: int, steps: int) -> Tensor | None:
        """One step a call where it was so on the example, which has more steps than agents."""
        if self._each.get(path):
            return step_by_step(values, rows, steps)
        return over_steps(values, rows, steps, time_first=self._time_first)

    def _behind_burn_in(self, values: list[Tensor], rows: int, steps: int) -> Tensor | None:
        """The same of a part whose first steps run without a graph."""
        for of_all, more in itertools.product((True, False), (0, 1)):
            laid, burnt = behind_burn_in(
                values, rows, steps + more, time_first=self._time_first, of_all=of_all
            )
            if laid is not None:
                self.burnt = max(self.burnt, burnt)
                return laid[:, :steps]
        return None

    def held_parts(self) -> list[tuple[str, Any]]:
        """What it can reach."""
        return [("loss", self._loss), *self._parts.items()]

    def _like_the_example(self, batch: TensorDictBase) -> TensorDictBase:
        """The batch with the entries that the example has."""
        given, count = dict(tensor_items(batch)), batch.numel()
        flat = self._example.reshape(-1)
        index = torch.arange(count) % flat.shape[0]
        whole: dict[Key, Tensor] = {}
        for key, value in tensor_items(flat):
            lent = value[index.to(value.device)].reshape(*batch.shape, *value.shape[1:])
            if key == MASK_OF_ROWS:  # all of these steps are data
                lent = torch.ones_like(lent)
            lent = placed(lent, place_of(batch))
            whole[key] = given.get(key, _as_wide(lent, given.values()))
        for key, source in self._shown.items():
            if key in given and source in whole:
                factor, more = self._scales.get(key, (1.0, 0.0))
                value = given[key] if (factor, more) == (1, 0) else (given[key] - more) / factor
                whole[source] = _before(value, whole[source], batch.ndim - 1)
        return TensorDict(whole, batch_size=batch.batch_size)


def _first_round(values: list[Tensor], steps: int) -> list[Tensor]:
    """Those of the first of several rounds over the same steps, as the epochs of an update are: no
    optimiser steps between them, so that all give the same."""
    for each in (1, steps):
        rounds = [values[n : n + each] for n in range(0, len(values), each)]
        if len(rounds) > 1 and all(_equal(one, rounds[0]) for one in rounds):
            return rounds[0]
    return values


def _equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


def _before(shown: Tensor, source: Tensor, time: int) -> Tensor:
    """What each step must have had, for the one behind it to show that; of the last one what it
    has."""
    steps = shown.shape[time]
    if shown.numel() > source.numel() == shown.shape[: time + 1].numel():  # in its one-hot form
        shown = shown.reshape(*shown.shape[: time + 1], -1).argmax(-1)
    later = shown.narrow(time, 1, steps - 1)
    last = source.narrow(time, steps - 1, 1)
    later = later.reshape(source.narrow(time, 0, steps - 1).shape)
    if not last.is_floating_point():  # such as an action: a check may have moved what was shown
        later = later.round().clamp(int(source.min()), int(source.max()))
    return torch.cat([later.to(last), last], time)


def _as_wide(lent: Tensor, given: Any) -> Tensor:
    """In the floating type that the batch has."""
    kinds = {value.dtype for value in given if value.is_floating_point()}
    return lent.double() if torch.float64 in kinds and lent.is_floating_point() else lent
