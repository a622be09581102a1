"""Weights of a module that acts which change nothing of what acting gives: a model beside it that
the module holds as well."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.evidence.constructed_batches import longest_head
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.passes import unroll_subject
from rnncheck.pipeline.subject.subject import Subject

_TAIL = 2  # parts of a parameter's name: of which layer it is, and what


def acts_idly(evidence: Evidence, name: str, weight: Tensor) -> bool:
    """Whether the policy or the critic has the weight, under such a name, and gives the same to the
    bit, with the state that it leaves, where it is another one."""
    told = [
        (subject, path)
        for subject in evidence.subjects
        for path, own in subject.module.named_parameters()
        if _is_it(path, own, name, weight)
    ]
    return bool(told) and not any(_moves(evidence, *one) for one in told)


def _is_it(path: str, own: nn.Parameter, name: str, weight: Tensor) -> bool:
    if path.split(".")[-_TAIL:] != name.split(".")[-_TAIL:] or own.shape != weight.shape:
        return False
    return torch.equal(own.detach().cpu(), weight.detach().cpu())


def _moves(evidence: Evidence, subject: Subject, path: str) -> bool:
    made, network = longest_head(evidence, subject), subject.copy()

    def unrolled() -> TensorDictBase:
        return unroll_subject(subject, made.inputs, made.starts, module=network)

    before = unrolled()
    with torch.no_grad():
        network.get_parameter(path).add_(1.0)
    try:
        after = unrolled()
    except Exception:  # the user's module may refuse such a weight: then it uses it
        return True
    return any(not torch.equal(before.get(key), after.get(key)) for key in tensor_keys(before))
