"""Recurrent passes inside the loss, each run once more from the states that its steps truly had."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, copied, loss_of, run_loss
from rnncheck.checks.evidence.training_batches import Sample, truth
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.instruments.module_calls import (
    CarryState,
    ModuleCall,
    ModuleCalls,
    OtherStates,
    state_keys,
)
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.subject import next_key

_NEAR = 1e-5  # relative: an embedding computed on two batches rounds differently


@dataclass(frozen=True)
class Started:
    """What a pass gave and what it gives from the true states; gaps and the steps that count are
    ``[rows, steps]``."""

    name: str
    following: bool  # it ran over the next steps
    gaps: Tensor
    mask: Tensor
    scale: float


def from_true_states(evidence: Evidence, sample: Sample) -> list[Started]:
    """Every pass over the steps, or over the next steps, whose true states are known."""
    kinds = _kinds(evidence, sample)
    states = {True: _true(evidence, sample), False: _stored(evidence, sample)}

    def others(number: int, module: nn.Module, given: TensorDictBase) -> CarryState | None:
        blocks = kinds.get(number)
        return None if blocks is None else _fitting(states, blocks, state_keys(module), given)

    passes = _passes(evidence, sample, sample.td, others)
    mask = {True: _goes_on(evidence, sample), False: sample.known}
    return [
        _compared(sample, one, block, following=following, mask=mask[following])
        for number, one in enumerate(passes)
        if one.again is not None and _joins_steps(one, sample)
        for block, following in enumerate(kinds[number])
        if following is not None
    ]


def in_rows(evidence: Evidence, sample: Sample) -> bool:
    """Whether a loss that reshapes a flat batch to rows leaves the steps in their order: what is
    changed at some steps changes the inputs of its passes there and nowhere else."""
    return evidence.once("rows of the loss", lambda: _in_rows(evidence, sample), sample)


def _in_rows(evidence: Evidence, sample: Sample) -> bool:
    base = _passes(evidence, sample, sample.td)
    if sample.td.batch_dims != 1 or not any(_is_reshaped(one, sample) for one in base):
        return False
    draw = torch.rand(sample.valid.shape, generator=torch.Generator().manual_seed(6))
    some = (draw < 0.5) & sample.valid  # half of the steps: another order hits others
    moved = _passes(evidence, sample, changed_batch(sample, some, observed(evidence, sample)))
    if [one.x.shape for one in base] != [one.x.shape for one in moved]:
        return False
    pairs = [pair for pair in zip(base, moved, strict=True) if _is_reshaped(pair[0], sample)]
    hit = [bits_differ(*(blocked(one.x, 1, sample)[0] for one in pair)).any(-1) for pair in pairs]
    return all(torch.equal(one, some) for one in hit)


def _is_reshaped(one: ModuleCall, sample: Sample) -> bool:
    return len(one.shape) == 2 and one.shape.numel() == sample.td.shape.numel()


def blocks_of(one: ModuleCall, sample: Sample, *, rows: bool = False) -> int:
    """How many copies of the batch the pass ran on, laid one behind the other or stacked; 0 for
    another layout. ``rows``: passes over a flat batch in rows have the steps in their order."""
    shape, own = one.shape, sample.td.shape
    if shape == own or (rows and _is_reshaped(one, sample)):
        return 1
    if shape[1:] == own:
        return shape[0]
    behind = len(shape) == len(own) and shape[1:] == own[1:] and shape[0] % own[0] == 0
    return shape[0] // own[0] if behind else 0


def blocked(value: Tensor, count: int, sample: Sample) -> Tensor:
    """``[blocks, rows, steps, features]``."""
    return value.reshape(count, *sample.rows.shape, -1)


def _passes(
    evidence: Evidence, sample: Sample, td: TensorDictBase, others: OtherStates | None = None
) -> list[ModuleCall]:
    with ModuleCalls(others) as inside:
        run_loss(evidence, sample, td, loss=copied(loss_of(evidence)), per_element=False)
    return inside.passes


def _kinds(evidence: Evidence, sample: Sample) -> dict[int, list[bool | None]]:
    """By number of pass, for each of its blocks: whether it ran over the next steps; None where
    that cannot be told."""
    keys, everywhere = observed(evidence, sample), torch.ones_like(sample.valid)
    base = _passes(evidence, sample, sample.td)
    moved = {}
    for following in (True, False):
        touched = [key for key in keys if (key[0] == "next") is following]
        moved[following] = _passes(evidence, sample, changed_batch(sample, everywhere, touched))
        if [one.x.shape for one in moved[following]] != [one.x.shape for one in base]:
            return {}
    found, rows = {}, in_rows(evidence, sample)
    for number, one in enumerate(base):
        count = blocks_of(one, sample, rows=rows)
        old = blocked(one.x, count, sample) if count else ()
        pair = [blocked(moved[kind][number].x, count, sample) for kind in (True, False) if count]
        found[number] = [
            _kind(x, pair[0][block], pair[1][block], base, sample) for block, x in enumerate(old)
        ]
    return {number: kinds for number, kinds in found.items() if kinds}


def _kind(
    x: Tensor, by_next: Tensor, by_root: Tensor, passes: list[ModuleCall], sample: Sample
) -> bool | None:
    """Whether inputs ``[rows, steps, ...]`` are those of the next steps, by which entries of the
    batch move them."""
    of_next, of_root = (bool(bits_differ(x, other).any()) for other in (by_next, by_root))
    if of_next != of_root:
        return of_next
    return True if _shifted(x, passes, sample) else None


def _shifted(x: Tensor, passes: list[ModuleCall], sample: Sample) -> bool:
    """The inputs at t are what a pass over the batch read at t+1, inside segments."""
    inside = sample.follows[:, 1:]
    for other in passes:
        if blocks_of(other, sample) != 1 or not bool(inside.any()):
            continue
        root = blocked(other.x, 1, sample)[0, :, 1:]
        if root.shape[2:] != x.shape[2:]:
            continue
        near = (x[:, :-1] - root).abs().amax(-1) <= _NEAR * (1 + root.abs().amax(-1))
        if bool(near[inside].double().mean() > 0.9):
            return True
    return False


def _true(evidence: Evidence, sample: Sample) -> CarryState:
    """The state before each step's next step, as the sequential run has it."""
    known, ids = truth(evidence), sample.ids.clamp_min(0)
    pairs = ((key, known.outputs.get(next_key(key))) for key in evidence.policy.carry)
    return {key: value[ids] for key, value in pairs if value is not None}


def _stored(evidence: Evidence, sample: Sample) -> CarryState:
    """The state before each step as the batch has it: whether that one is right is asked of the
    batch (RP504)."""
    pairs = ((key, sample.rows.get(key, None)) for key in evidence.policy.carry)
    return {key: value for key, value in pairs if isinstance(value, Tensor)}


def _goes_on(evidence: Evidence, sample: Sample) -> Tensor:
    """Steps whose next step belongs to the same episode and is known."""
    done: Tensor | None = sample.rows.get(("next", "done"), None)
    over = torch.zeros_like(sample.valid)
    if done is not None:
        over = done.reshape(*sample.rows.shape, -1).any(-1)
    return sample.known & truth(evidence).has[sample.ids.clamp_min(0)] & ~over


def _fitting(
    states: dict[bool, CarryState],
    blocks: list[bool | None],
    mine: tuple[Key, ...],
    given: TensorDictBase,
) -> CarryState | None:
    """The states that the module reads, block by block; None unless all of them are known and
    fit."""
    found, count = {}, len(blocks)
    for key in mine:
        old = given.get(key, None)
        values = [None if kind is None else states[kind].get(key) for kind in blocks]
        own = (
            [None] * count
            if old is None
            else list(old.reshape(count, -1, *old.shape[given.ndim :]))
        )
        parts = []
        for kind, value, there in zip(blocks, values, own, strict=True):
            flat = there if kind is None else None if value is None else value.flatten(0, 1)
            if flat is None or (there is not None and flat.shape != there.shape):
                return None
            parts.append(flat if there is None else flat.to(there.dtype))
        found[key] = torch.stack(parts).reshape(*given.batch_size, *parts[0].shape[1:])
    return found


def _joins_steps(one: ModuleCall, sample: Sample) -> bool:
    """The pass runs over stretches: not every step of it begins anew (that is a loss without
    memory, LS703)."""
    keys = [key for key in sample.steps.recording.subject.flags if key in tensor_keys(one.given)]
    return not any(bool(one.given.get(key).all()) for key in keys)


def _compared(
    sample: Sample, one: ModuleCall, block: int, *, following: bool, mask: Tensor
) -> Started:
    assert one.again is not None
    count = blocks_of(one, sample, rows=True)  # those of another order were not run again
    seen, want = (blocked(v, count, sample)[block] for v in (one.y.detach(), one.again))
    gaps = gap(seen, want).amax(-1) * mask
    name = ".".join(one.output) + (" of the next step" if following else "")
    return Started(name, following, gaps, mask, max(float(want.abs().max()), 1e-6))
