"""Which buffers of a policy or critic are running statistics."""

from __future__ import annotations

from contextlib import suppress

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.pipeline.keys import tensor_items
from rnncheck.pipeline.subject.passes import run_recurrent, unroll_subject
from rnncheck.pipeline.subject.statistics import row_free
from rnncheck.pipeline.subject.subject import Subject

_STEPS = 4  # of a sequence; chosen: more than one


def counted_by(subject: Subject, first: TensorDictBase, rows: int) -> frozenset[str]:
    """The buffers, by path, that the module moves, in a step or over sequences, and in which no row
    has a place."""
    if not any(True for _ in subject.module.buffers()):
        return frozenset()
    inputs = _two_rows(subject.inputs_of(first).reshape(rows).unsqueeze(1))
    found, before = frozenset[str](), _held(subject.copy())
    for after in (_after_a_step, _after_sequences):
        with suppress(Exception):  # it takes no other rows: what it holds may be one of each
            found |= row_free(before, [after(subject, one) for one in (inputs, inputs.flip(0))])
    return found


def _after_sequences(subject: Subject, inputs: TensorDictBase) -> dict[str, Tensor]:
    module = subject.copy()
    run_recurrent(subject, torch.cat([inputs] * _STEPS, 1), module=module)
    return _held(module)


def _after_a_step(subject: Subject, inputs: TensorDictBase) -> dict[str, Tensor]:
    module = subject.copy()
    starts = torch.ones(inputs.shape[:2], dtype=torch.bool)
    unroll_subject(subject, inputs, starts, module=module)
    return _held(module)


def _held(module: torch.nn.Module) -> dict[str, Tensor]:
    return {path: one.detach().clone() for path, one in module.named_buffers()}


def _two_rows(inputs: TensorDictBase) -> TensorDictBase:
    """At least two rows that differ, of ``inputs`` ``[rows, 1]``."""
    made: TensorDictBase = torch.cat([inputs, inputs]) if len(inputs) == 1 else inputs.clone()
    draw = torch.Generator().manual_seed(9)
    for key, value in tensor_items(made):
        if value.is_floating_point():
            made.set(key, value + 0.1 * torch.rand(value.shape, generator=draw).to(value))
    return made
