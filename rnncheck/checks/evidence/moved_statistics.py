"""What running statistics that moved while a batch was collected keep untold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.random_outputs import random_outputs
from rnncheck.checks.rule import CouldNotLook, Judgement, Unanswered
from rnncheck.pipeline.keys import Key, tensor_items
from rnncheck.pipeline.subject.passes import unroll_subject
from rnncheck.pipeline.subject.subject import Subject

_MOST = 3  # names that are told


def unless_counted(judgement: Judgement, evidence: Evidence) -> Judgement:
    """What differs from what was recorded may do so since statistics moved while it was: that tells
    nothing, and says so."""
    names: Set[str] = evidence.counted | evidence.pipeline.counted
    if names:
        asked = frozenset(names)
        names = evidence.once("statistics that reach", lambda: _reaching(evidence, asked), asked)
    if not names:
        return judgement
    said = ", ".join(sorted(names)[:_MOST])
    raise CouldNotLook(
        f"what was recorded was made with running statistics that moved meanwhile ({said}): hold"
        " them while a batch is collected, and it can be compared"
    )


def _reaching(evidence: Evidence, names: Set[str]) -> Set[str]:
    """Those that what the policy says may depend on: all but buffers of its own with which other
    numbers change nothing, such as how much is explored."""
    try:
        subject, noisy = evidence.policy, random_outputs(evidence, evidence.policy)
        own = _paths(subject)
        as_is = _said(evidence, subject, ()) if own.keys() & names else {}
    except Unanswered:
        return names
    told = {key: one for key, one in as_is.items() if key not in noisy}
    return {n for n in names if n not in own or _moves(evidence, subject, own[n], told)}


def _paths(subject: Subject) -> dict[str, set[str]]:
    """The module's buffers, by path and as ``Class.buffer``."""
    found: dict[str, set[str]] = {}
    for path, module in subject.module.named_modules():
        for name, one in module._buffers.items():
            if one is not None and one.numel():
                whole = f"{path}.{name}".lstrip(".")
                for said in (whole, f"{type(module).__name__}.{name}"):
                    found.setdefault(said, set()).add(whole)
    return found


def _moves(
    evidence: Evidence, subject: Subject, paths: Collection[str], told: Mapping[Key, Tensor]
) -> bool:
    try:
        said = _said(evidence, subject, paths)
    except Exception:  # it takes no such numbers: they reach something
        return True
    return any(not torch.equal(said[key], one) for key, one in told.items())


def _said(evidence: Evidence, subject: Subject, paths: Collection[str]) -> dict[Key, Tensor]:
    """What the module writes in a step, with other numbers in these of its buffers."""
    module = subject.copy()
    for path in paths:
        buffer = module.get_buffer(path)
        buffer.data = torch.logical_not(buffer) if buffer.dtype == torch.bool else buffer + 1
    inputs = subject.inputs_of(evidence.env.first).reshape(evidence.env.rows).unsqueeze(1)
    starts = torch.ones(inputs.shape[:2], dtype=torch.bool)
    out = unroll_subject(subject, inputs, starts, module=module)
    return {key: torch.nan_to_num(one.detach()) for key, one in tensor_items(out)}
