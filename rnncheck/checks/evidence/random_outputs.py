"""Which outputs of a policy or critic a comparison may use."""

from __future__ import annotations

import random

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import nn
from torch.nn.modules import module as hooks

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.placing import random_states
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
    """Numbers differ under two seeds. An action that is drawn now and then may be the same under
    two; where random numbers are drawn at all it is asked again, and is none to rely on."""
    made, run = constructed(evidence, subject), _explored if explore else _seeded
    with Draws() as draws:
        one, two = (run(subject, made, salt) for salt in (1, 2))
    keys = tensor_keys(one)
    differ = {key for key in keys if not torch.equal(one.get(key), two.get(key))}
    chosen = {key for key in keys if not one.get(key).is_floating_point()} - set(subject.flags)
    return frozenset(differ | (chosen if draws.seen else set()))


class Draws:
    """``seen``: while the context is open, what runs inside ``measuring`` draws random numbers."""

    def __enter__(self) -> Draws:
        self.seen = False
        self._handles = [
            hooks.register_module_forward_pre_hook(self._before),
            hooks.register_module_forward_hook(self._behind),
        ]
        self._states: list[tuple[object, ...]] = []
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _before(self, _module: nn.Module, _inputs: object) -> None:
        self._states.append(_random_states() if not self._states else ())

    def _behind(self, _module: nn.Module, _inputs: object, _result: object) -> None:
        before = self._states.pop() if self._states else ()
        self.seen = self.seen or (bool(before) and before != _random_states())


def _random_states() -> tuple[object, ...]:
    """Python's, NumPy's and torch's, on the CPU and the accelerator."""
    numbers = np.random.get_state(legacy=False)["state"]
    arrays = (numbers["key"].tobytes(), numbers["pos"])
    drawn = (one.numpy().tobytes() for one in random_states())
    return random.getstate(), arrays, *drawn


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
