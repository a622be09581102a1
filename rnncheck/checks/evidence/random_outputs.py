"""Which outputs of a policy or critic a comparison may use."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import RunSettings, unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key


def random_outputs(
    evidence: Evidence, subject: Subject, *, explore: bool = False
) -> frozenset[Key]:
    """Outputs that draw random numbers: they differ between two seeds."""
    return evidence.once(
        "random outputs of the", lambda: _noisy(evidence, subject, explore), subject.stage, explore
    )


def _noisy(evidence: Evidence, subject: Subject, explore: bool) -> frozenset[Key]:
    made = constructed(evidence, subject)
    if explore:
        one, two = (_explored(subject, made, salt) for salt in (1, 2))
    else:
        one, two = (_seeded(subject, made, salt) for salt in (1, 2))
    return frozenset(key for key in tensor_keys(one) if not torch.equal(one.get(key), two.get(key)))


def comparable_outputs(evidence: Evidence, subject: Subject, td: TensorDictBase) -> list[Key]:
    """The outputs that a comparison may use: not the carry, not random."""
    carry = {next_key(key) for key in subject.carry}
    made = constructed(evidence, subject)
    given = {*tensor_keys(made.inputs), *tensor_keys(made.nexts)} - set(subject.writes)
    skip = (
        carry | given | set(subject.flags) | set(subject.carry) | random_outputs(evidence, subject)
    )
    return [key for key in tensor_keys(td) if key not in skip]


def _explored(subject: Subject, made: Constructed, salt: int) -> TensorDictBase:
    return unroll_subject(
        subject, made.inputs, made.starts, settings=RunSettings(explore=True, seed=salt)
    )


def _seeded(subject: Subject, made: Constructed, salt: int) -> TensorDictBase:
    return unroll_subject(subject, made.inputs, made.starts, settings=RunSettings(seed=salt))
