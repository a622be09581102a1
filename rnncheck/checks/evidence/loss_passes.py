"""Recurrent passes inside the loss, each run once more from the states that its steps truly had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, run_loss
from rnncheck.checks.evidence.shown_next import shown_next
from rnncheck.checks.evidence.succession import succession, true_flags
from rnncheck.checks.evidence.traced_steps import Shown, passes_of, plain, row_orders, traced
from rnncheck.checks.evidence.training_batches import Sample, truth
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.instruments.module_calls import CarryState, ModuleCall, state_keys
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.subject import next_key

_DONE: Key = ("next", "done")
_OTHER = 1e-3  # of the largest output: far above rounding


@dataclass(frozen=True)
class Started:
    """What a pass gave and what it gives from the true states; gaps and the steps that count are
    ``[rows, steps]``."""

    output: str
    following: bool  # it ran over the next steps
    gaps: Tensor
    mask: Tensor
    scale: float
    collected: bool  # by the weights that the steps were collected with
    from_zero: bool  # no state that it read holds anything but zeros

    @property
    def name(self) -> str:
        """What differs, in a finding."""
        return self.output + (" of the next step" if self.following else "")


def from_true_states(
    evidence: Evidence, sample: Sample, *, recorded: bool = False
) -> list[Started]:
    """Every pass over the steps, or over the next steps, whose true states are known.

    Those of the steps are the batch's, or with ``recorded`` the collected ones. Where a pass gives
    something else, it is asked whether its rows stand in another order than the batch's.
    """
    found = _from_true_states(evidence, sample, recorded, {})
    if any(float(one.gaps.max()) > _OTHER * one.scale for one in found):
        orders = row_orders(evidence, sample)
        found = _from_true_states(evidence, sample, recorded, orders) if orders else found
    return found


def _from_true_states(
    evidence: Evidence, sample: Sample, recorded: bool, orders: dict[int, Tensor]
) -> list[Started]:
    kinds = _kinds(evidence, sample, orders)
    own = _recorded(evidence, sample) if recorded else _stored(evidence, sample)
    states = {True: _true(evidence, sample), False: own}
    acted = ~(sample.known & sample.steps.random[sample.ids.clamp_min(0)])
    known = acted & sample.known if recorded else acted
    has = {True: _replayed(evidence, sample), False: known}
    over_next = any(any(one.following) for one in kinds.values())
    apart = alone(evidence, sample) if over_next else set()

    def others(number: int, module: nn.Module, given: TensorDictBase) -> CarryState | None:
        steps = kinds.get(number)
        found = None if steps is None else _fitting(states, has, steps, given, module)
        if found is None or steps is None:
            return found
        own = getattr(module, "recurrent_mode", None) is False  # every step from its own state
        if not own and given.batch_size == sample.td.batch_size:
            return found
        if own or number in apart:
            return found | _unflagged(steps, given, evidence.policy.flags, mask[True])
        lie = succession(steps, given.batch_size, sample)
        if not bool(lie.goes_on.any()) and not _known_weights(evidence, module):
            return None  # one step of an unroll by another network, from its own states
        return found | true_flags(steps, lie, given, evidence.policy.flags)

    mask = {True: _goes_on(evidence, sample), False: acted & sample.known}
    passes = passes_of(evidence, sample, sample.td, others)
    joins = [_joins_steps(one, sample) for one in passes]
    return [
        _compared(evidence, one, kinds[number], block, mask[following])
        for number, one in enumerate(passes)
        if one.again is not None
        for block, following in enumerate(kinds[number].following)
        if following is not None and (joins[number] or (following and any(joins)))
    ]


def alone(evidence: Evidence, sample: Sample) -> set[int]:
    """By number the passes that take every position by itself: a batch of single steps."""
    return evidence.once("passes without memory", lambda: _alone(evidence, sample), sample)


def _alone(evidence: Evidence, sample: Sample) -> set[int]:
    timed = passes_of(evidence, sample, sample.td, timing=True)
    return {number for number, one in enumerate(timed) if not one.along}


def _kinds(evidence: Evidence, sample: Sample, orders: dict[int, Tensor]) -> dict[int, Shown]:
    """By number of pass the steps that it shows, and whether as the next ones.

    On a batch of the training batch's own shape that is told by which entries move it; it is traced
    only where both do.
    """
    keys, everywhere = observed(evidence, sample), torch.ones_like(sample.valid)
    base = passes_of(evidence, sample, sample.td)
    moved = {}
    for following in (True, False):
        touched = [key for key in keys if (key[0] == "next") is following]
        moved[following] = passes_of(evidence, sample, changed_batch(sample, everywhere, touched))
        if [one.x.shape for one in moved[following]] != [one.x.shape for one in base]:
            return {}
    found = dict[int, Shown]()
    for number, one in enumerate(base):
        by_next, by_root = (
            bool(bits_differ(one.x, moved[kind][number].x).any()) for kind in (True, False)
        )
        own = plain(one, sample, orders.get(number))
        if own is not None and by_next != by_root:
            found[number] = replace(own, following=(by_next,))
        elif (by_next or by_root) and number in (told := traced(evidence, sample)):
            found[number] = told[number]
    return found


def _true(evidence: Evidence, sample: Sample) -> CarryState:
    """The state before each step's next step, as the sequential run has it."""
    known, ids = truth(evidence), shown_next(evidence, sample)
    pairs = ((key, known.outputs.get(next_key(key))) for key in evidence.policy.carry)
    return {key: value[ids] for key, value in pairs if value is not None}


def _replayed(evidence: Evidence, sample: Sample) -> Tensor:
    """Steps whose next step's sequential run is known."""
    return sample.known & truth(evidence).has[shown_next(evidence, sample)]


def _stored(evidence: Evidence, sample: Sample) -> CarryState:
    """The state before each step as the batch has it: whether that one is right is asked of the
    batch (RP504)."""
    pairs = ((key, sample.rows.get(key, None)) for key in evidence.policy.carry)
    return {key: value for key, value in pairs if isinstance(value, Tensor)}


def _recorded(evidence: Evidence, sample: Sample) -> CarryState:
    """The state before each step as it was collected."""
    pairs = ((key, sample.steps.column(key)) for key in evidence.policy.carry)
    return {k: value[sample.ids.clamp_min(0)] for k, value in pairs if value is not None}


def _goes_on(evidence: Evidence, sample: Sample) -> Tensor:
    """Steps whose next step belongs to the same episode and is known; where a slice was cut, those
    whose next observation has a part in the loss."""
    over = _ends(sample.rows.get(_DONE, None), sample.valid)
    recorded = sample.steps.column(_DONE)
    if recorded is not None:
        there = recorded[shown_next(evidence, sample)]
        cut = over & sample.known & ~_ends(there, sample.valid)
        if bool(cut.any()) and _counts_next(evidence, sample, cut):
            over &= ~cut
    return _replayed(evidence, sample) & ~over


def _ends(done: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if done is None else done.reshape(*like.shape, -1).any(-1)


def _counts_next(evidence: Evidence, sample: Sample, at: Tensor) -> bool:
    """What is observed next to these steps changes the loss."""
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    base, moved = (
        run_loss(evidence, sample, td, per_element=False).total
        for td in (sample.td, changed_batch(sample, at, keys))
    )
    return not torch.equal(base, moved)


def _fitting(
    states: dict[bool, CarryState],
    has: dict[bool, Tensor],
    steps: Shown,
    given: TensorDictBase,
    module: nn.Module,
) -> CarryState | None:
    """The states that the module reads, position by position: as they are where no step is shown
    that ``has`` one; None unless all of them fit."""
    found = {}
    for key in state_keys(module):
        old = given.get(key, None)
        flat = None if old is None else old.flatten(0, given.ndim - 1)
        for kind in {one for one in steps.following if one is not None}:
            value = states[kind].get(key)
            if value is None:
                return None
            there = steps.taken(value)
            flat = torch.zeros_like(there) if flat is None else flat
            if flat.shape != there.shape:
                return None
            at = (steps.next_ones == kind) & (steps.place >= 0) & steps.taken(has[kind])
            wide = at.reshape(-1, *[1] * (there.ndim - 1))
            flat = torch.where(wide, there.to(flat.dtype), flat)
        if flat is None:
            return None
        found[key] = flat.reshape(*given.batch_size, *flat.shape[1:])
    return found


def _unflagged(
    steps: Shown, given: TensorDictBase, flags: Iterable[Key], goes_on: Tensor
) -> CarryState:
    """The start flags that it reads, without those of next steps of the same episode."""
    inside = steps.next_ones & steps.taken(goes_on)
    found = {}
    for key in flags:
        flag = given.get(key, None)
        if flag is not None:
            wide = inside.reshape(*given.batch_size, *[1] * (flag.ndim - given.ndim))
            found[key] = flag & ~wide
    return found


def _joins_steps(one: ModuleCall, sample: Sample) -> bool:
    """The pass runs over stretches: not every step of it begins anew (that is a loss without
    memory, LS703)."""
    keys = [key for key in sample.steps.recording.subject.flags if key in tensor_keys(one.given)]
    return not any(bool(one.given.get(key).all()) for key in keys)


def _known_weights(evidence: Evidence, module: nn.Module) -> bool:
    """The module has the weights of one that gave the states of the collected steps."""
    mine = list(module.parameters())
    for carrier in evidence.policy.carriers:
        theirs = list(carrier.module.parameters())
        if len(mine) == len(theirs) and all(map(torch.equal, mine, theirs)):
            return True
    return False


def _compared(
    evidence: Evidence, one: ModuleCall, steps: Shown, block: int, mask: Tensor
) -> Started:
    assert one.again is not None
    seen, want = (steps.laid_out(v)[block] for v in (one.y.detach(), one.again))
    mask = mask & steps.has[block]
    gaps = gap(seen, want).amax(-1) * mask
    following, scale = bool(steps.following[block]), max(float(want.abs().max()), 1e-6)
    collected = _known_weights(evidence, one.module)
    read = [one.given.get(key, None) for key in state_keys(one.module)]
    zero = not any(value is not None and bool(value.any()) for value in read)
    return Started(".".join(one.output), following, gaps, mask, scale, collected, zero)
