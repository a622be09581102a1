"""State that a module keeps outside the tensordict: the same steps twice through one copy of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rnncheck.checks.evidence.comparison import OutputChange, changes
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.recurrent_pass import as_collected
from rnncheck.checks.rule import CouldNotLook, Unanswered
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import run_recurrent, unroll_subject
from rnncheck.pipeline.subject.subject import Subject


@dataclass(frozen=True)
class HiddenState:
    """A second run of one copy differs from the first: in which mode, where, and which attributes
    moved."""

    mode: str
    change: OutputChange
    moved: tuple[str, ...]


def hidden_state(evidence: Evidence, subject: Subject, made: Constructed) -> HiddenState | None:
    """The first mode in which a second run of one copy differs from the first."""
    module = subject.copy()
    before = attributes(module)
    for mode in ("sequential", "recurrent"):
        try:
            found = twice(evidence, subject, made, module, mode)
        except Unanswered:
            continue
        if found:
            moved = sorted(changed_attributes(before, attributes(module)))
            return HiddenState(mode, found[0], tuple(moved))
    return None


def remembered_by(subject: Subject, made: Constructed) -> list[str] | None:
    """The attributes that move where a module that hands no state on answers a step by what it was
    shown one step before; None where it does not."""
    steps, starts = made.inputs[:1, :2], torch.tensor([[True, False]])
    other = steps.clone()
    other[:, 0] = made.inputs[:1, -1]
    module = subject.copy()
    before = attributes(module)
    one, two = (
        unroll_subject(subject, one, starts, module=module)[:, 1:] for one in (steps, other)
    )
    keys = [key for key in tensor_keys(one) if key in tensor_keys(two)]
    if made.steps < 2 or not changes(one, two, keys, torch.ones(1, 1, dtype=torch.bool)):
        return None
    return sorted(changed_attributes(before, attributes(module)))


def twice(
    evidence: Evidence, subject: Subject, made: Constructed, module: nn.Module, mode: str
) -> list[OutputChange]:
    """What differs between two runs of the same copy."""
    if mode == "sequential":
        one, two = (
            unroll_subject(subject, made.inputs, made.starts, module=module) for _ in range(2)
        )
    else:
        batch = as_collected(subject, made.batch(subject))
        try:
            runs = [run_recurrent(subject, batch, module=module) for _ in range(2)]
        except Exception as error:
            raise CouldNotLook(str(error)) from error
        one, two = (r.reshape(made.starts.shape) for r in runs)
    keys = [key for key in tensor_keys(one) if key in tensor_keys(two)]
    return changes(one, two, keys, torch.ones_like(made.starts))


def attributes(module: nn.Module) -> dict[str, Any]:
    """Tensors, numbers and containers of tensors that modules hold outside their parameters."""
    held: dict[str, Any] = {}
    for path, part in module.named_modules():
        prefix = f"{path}." if path else ""
        own = {k: v for k, v in vars(part).items() if not k.startswith("_") or k == "_buffers"}
        for name, value in {**own, **dict(part._buffers)}.items():
            if isinstance(value, Tensor | int | float | tuple | list) and not isinstance(
                value, bool
            ):
                held[prefix + name] = value.clone() if isinstance(value, Tensor) else value
    return held


def changed_attributes(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Names whose value is another one, or new."""
    return {name for name, value in after.items() if not _equal(before.get(name), value)}


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left.shape == right.shape and torch.equal(left, right)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return type(left) is type(right) and bool(left == right)
