"""Recurrent passes inside the value estimator, against the sequential run of the same steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.estimator_calls import estimated
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch
from rnncheck.checks.evidence.module_copies import is_copy
from rnncheck.checks.evidence.random_outputs import random_outputs
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.checks.value.estimates import Values, true_values
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.instruments.module_calls import ModuleCall, ModuleCalls
from rnncheck.pipeline.keys import Key, as_key, dotted
from rnncheck.pipeline.subject.subject import Subject, next_key

_DRAW = 11  # any fixed number: no order of the steps looks like another
_STEPS, _NEXT, _LAST = "the steps", "the next steps", "what follows the last step of each row"


@dataclass(frozen=True)
class Inner:
    """One pass over the batch's steps or their next steps; gaps and the steps that count are
    ``[rows, steps]``."""

    key: Key
    following: bool
    gaps: Tensor
    mask: Tensor
    scale: float

    @property
    def name(self) -> str:
        """What differs, in a finding."""
        return dotted(self.key) + (" of the next step" if self.following else "")


def inner_passes(evidence: Evidence, sample: Sample) -> list[Inner]:
    """The estimator's passes of which it is known which steps they ran over and what these give."""
    passes = _passes(evidence, sample.td)
    ran = [_ran_over(one, sample) for one in passes]
    if None in ran:  # what they read was computed from what is observed
        ran = [
            own or told for own, told in zip(ran, _traced(evidence, sample, passes), strict=True)
        ]
    found = (_compared(evidence, sample, *pair) for pair in zip(passes, ran, strict=True))
    return [one for one in found if one is not None]


def _passes(evidence: Evidence, td: TensorDictBase) -> list[ModuleCall]:
    with ModuleCalls() as inside:
        estimated(evidence, td)
    return inside.passes


def _ran_over(one: ModuleCall, sample: Sample) -> str | None:
    """Over which steps, by what it read; None where it read neither these nor the next ones."""
    following = _following(one, sample.td)
    if following is None:
        return _LAST if _behind_rows(one, sample) else None
    return _NEXT if following else _STEPS


def _traced(evidence: Evidence, sample: Sample, passes: list[ModuleCall]) -> list[str | None]:
    """The same by which of their steps other observations reach, some drawn steps of the batch."""
    draw = torch.Generator().manual_seed(_DRAW)
    touched = (torch.rand(sample.ids.shape, generator=draw) < 0.5) & sample.valid
    keys, told = observed(evidence, sample), list[str | None]([None] * len(passes))
    for kind in (_STEPS, _NEXT):
        asked = [key for key in keys if (key[0] == "next") is (kind == _NEXT)]
        others = _passes(evidence, changed_batch(sample, touched, asked))
        if [one.x.shape for one in others] != [one.x.shape for one in passes]:
            return told
        for number, (one, other) in enumerate(zip(passes, others, strict=True)):
            for name, where in ((kind, touched), (_LAST, touched[:, -1])):
                if one.x.ndim and one.shape.numel() == where.numel() and where.any():
                    moved = bits_differ(one.x, other.x).reshape(*where.shape, -1).any(-1)
                    last = name != _LAST or kind == _NEXT
                    told[number] = name if last and torch.equal(moved, where) else told[number]
    return told


def _compared(
    evidence: Evidence, sample: Sample, one: ModuleCall, ran_over: str | None
) -> Inner | None:
    subject, following, last = _owner(evidence, one), ran_over == _NEXT, ran_over == _LAST
    if subject is None or ran_over is None or _written_over(subject, one):
        return None
    if one.output in random_outputs(evidence, subject):
        return None
    try:
        values = true_values(evidence, one.output)
    except Unanswered:
        return None
    if last:
        return _last(one, sample, values)
    ids = sample.ids.clamp_min(0)
    ids = sample.steps.successor[ids] if following else ids
    mask = sample.known & (ids >= 0) & values.has[ids.clamp_min(0)]
    want = values.value[ids.clamp_min(0)]
    if want.numel() != one.y.numel() or not one.y.is_floating_point():
        return None
    gaps = gap(one.y.detach().reshape(want.shape), want)
    gaps = gaps.flatten(2).amax(-1) if gaps.ndim > 2 else gaps
    return Inner(one.output, following, gaps, mask, max(float(want.abs().max()), 1e-6))


def _behind_rows(one: ModuleCall, sample: Sample) -> bool:
    """Whether the pass was one step of each row, on what was observed behind its last one."""
    rows, told = sample.rows, False
    for key in one.given.keys(True, True):
        after = rows.get(next_key(as_key(key)), None)
        value = one.given.get(key)
        if after is None or not value.is_floating_point() or as_key(key) in one.carry:
            continue
        told = _equal(value, after[:, -1])
        if not told:
            return False
    return told


def _last(one: ModuleCall, sample: Sample, values: Values) -> Inner | None:
    """What it gave, held against the sequential run behind the rows' last steps."""
    want, has = values.following(sample)
    if want[:, -1].numel() != one.y.numel() or not one.y.is_floating_point():
        return None
    found = gap(one.y.detach().reshape(want[:, -1].shape), want[:, -1])
    gaps, mask = torch.zeros(sample.ids.shape, dtype=found.dtype), torch.zeros_like(sample.known)
    gaps[:, -1] = found.reshape(len(found), -1).amax(-1)
    mask[:, -1] = (sample.known & has)[:, -1]
    return Inner(one.output, True, gaps, mask, max(float(values.value.abs().max()), 1e-6))


def _owner(evidence: Evidence, one: ModuleCall) -> Subject | None:
    """The network whose carrier this is, or a copy of it with the same weights."""
    for subject in (evidence.critic, evidence.policy):
        carriers = () if subject is None else subject.carriers
        if any(is_copy(one.module, carrier.module) for carrier in carriers):
            return subject
    return None


def _written_over(subject: Subject, one: ModuleCall) -> bool:
    """Whether a later module of the network writes what this one gave by the same name, as those of
    an actor and a critic that act one after the other do: the sequential run has that one's."""
    writers = [
        carrier.module
        for carrier in subject.carriers
        if one.output in map(as_key, getattr(carrier.module, "out_keys", ()))
    ]
    return bool(writers) and not is_copy(one.module, writers[-1])


def _following(one: ModuleCall, batch: TensorDictBase) -> bool | None:
    """Whether the pass read what the batch holds under ``next``; None where it read neither that
    nor the steps."""
    for key in one.given.keys(True, True):
        name = key if isinstance(key, tuple) else (key,)
        value, now, after = (
            one.given.get(key),
            batch.get(name, None),
            batch.get(next_key(name), None),
        )
        if not value.is_floating_point():
            continue
        here, there = _equal(value, now), _equal(value, after)
        if here != there:
            return there
    return None


def _equal(left: Tensor, right: Tensor | None) -> bool:
    """The same numbers in the same order, of a batch that may have been laid flat."""
    if right is None or left.numel() != right.numel():
        return False
    return torch.equal(left.reshape(right.shape), right)
