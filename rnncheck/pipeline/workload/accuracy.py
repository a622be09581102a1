"""A cell's numbers against the float64 oracle: the step-by-step unroll of the user's policy.

Errors are relative to the largest magnitude of each entry, gradients to that of each parameter. A
cell is right where its error is at most ``FACTOR`` times that of the step-by-step unroll in the
same dtype, plus a slack in units of the precision that was asked for.
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Mapping
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.numerics.difference import gap
from rnncheck.numerics.tolerance import REFERENCE_FACTOR, SLACK
from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.keys import dotted, tensor_keys
from rnncheck.pipeline.placing import on_cpu, precision_as_set
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.pipeline.subject.passes import RunSettings, call, cast, unroll_subject
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.cells import Accuracy
from rnncheck.results.variant import Variant

REDUCED = {"tf32": 2.0**-10, "fast": 2.0**-10, "tf32x3": 2.0**-20}  # unit roundoff of the product
# Units of a precision that was asked for: its rounding feeds back through the carry. Healthy
# modules in bfloat16 and float16 were off by one unit: 16 times that, and a quarter of SLACK, 64
# units of which would be half of everything in bfloat16.
REDUCED_SLACK = 16.0
# Gradients sum over all steps: so many times the slack of outputs. Healthy ones were off by 3.0
# (float32), 3.1 (bfloat16) and 3.6 (float16) times as much as outputs.
GRADIENT_SLACK = 4.0


@dataclass(frozen=True)
class Numbers:
    """Float outputs ``[rows, steps, ...]`` by key, and gradients by parameter name; empty without
    gradients."""

    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]


def stepwise(
    subject: Subject, inputs: TensorDictBase, starts: Tensor, dtype: torch.dtype, *, grad: bool
) -> Numbers:
    """The unroll in sequential mode, in eval mode, of ``inputs`` ``[rows, steps]``."""
    module = without_dropout(subject.copy(dtype))
    out = unroll_subject(
        subject, inputs, starts, module=module, settings=RunSettings(dtype=dtype, grad=grad)
    )
    return numbers_of(module, out.exclude(*subject.carry), grad=grad)


def at_once(
    module: nn.Module,
    batch: TensorDictBase,
    dtype: torch.dtype,
    *,
    grad: bool,
    names: Container[str],
) -> Numbers:
    """``module`` in recurrent mode, in eval mode, on ``batch`` ``[rows, steps]``.

    Only the outputs ``names`` count.
    """
    modes = [(part, part.training) for part in all_modules(module)]
    without_dropout(module)
    try:
        with precision_as_set(), measuring(recurrent=True, grad=grad):
            return numbers_of(module, module(cast(batch, dtype).copy()), grad=grad, names=names)
    finally:
        for part, training in modes:
            part.training = training


def without_dropout(module: nn.Module) -> nn.Module:
    """``module`` in eval mode, but for recurrent layers that drop nothing out: cuDNN has a backward
    pass for those in training mode alone."""
    module.eval()
    for part in all_modules(module):
        if isinstance(part, nn.RNNBase) and not part.dropout:
            part.train()
    return module


def one_step(module: nn.Module, step: TensorDictBase, dtype: torch.dtype) -> Numbers:
    """A module in sequential mode on one step ``[rows]``, as ``[rows, 1]``."""
    with measuring(recurrent=False):
        found = numbers_of(module, call(module, cast(step, dtype).copy()), grad=False)
    return Numbers({key: value.unsqueeze(1) for key, value in found.outputs.items()}, {})


def numbers_of(
    module: nn.Module, out: TensorDictBase, *, grad: bool, names: Container[str] | None = None
) -> Numbers:
    """What a run gave: its float outputs, and the gradients of a fixed weighting of them."""
    keys = [
        key for key in tensor_keys(out) if key[0] != "next" and out.get(key).is_floating_point()
    ]
    outputs = {dotted(key): out.get(key) for key in keys if names is None or dotted(key) in names}
    gradients = _gradients(module, outputs) if grad else {}
    return Numbers(*({k: on_cpu(v.detach()) for k, v in d.items()} for d in (outputs, gradients)))


def _gradients(module: nn.Module, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    parts = [_weighted(name, value) for name, value in outputs.items() if value.requires_grad]
    named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not parts or not named:
        return {}
    total = torch.stack(parts).sum()
    found = torch.autograd.grad(total, [p for _, p in named], allow_unused=True)
    return {name: g for (name, _), g in zip(named, found, strict=True) if g is not None}


def _weighted(name: str, value: Tensor) -> Tensor:
    """A sum of the output with weights that depend on its name and shape alone."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    weight = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    return (value * weight.to(value.dtype).to(value.device)).sum()


def judged_accuracy(
    candidate: Numbers, reference: Numbers, oracle: Numbers, variant: Variant
) -> Accuracy | None:
    """The candidate's errors with their bounds; None where no float output can be compared."""
    worst = _errors(candidate.outputs, oracle.outputs)
    if not worst:
        return None
    slack = _slack(variant)
    base = max(_errors(reference.outputs, oracle.outputs).values(), default=0.0)
    name = max(worst, key=lambda key: worst[key])
    gradients = _errors(candidate.gradients, oracle.gradients)
    found = Accuracy(worst[name], REFERENCE_FACTOR * base + slack, worst=name)
    if not gradients:
        return found
    base = max(_errors(reference.gradients, oracle.gradients).values(), default=0.0)
    bound = REFERENCE_FACTOR * base + GRADIENT_SLACK * slack
    error = max(gradients.values())
    blamed = max(gradients, key=lambda key: gradients[key]) if error > bound else name
    return Accuracy(found.output, found.output_bound, error, bound, blamed)


def _errors(candidate: dict[str, Tensor], oracle: dict[str, Tensor]) -> dict[str, float]:
    """Worst absolute error over the largest magnitude, by name; shapes that differ are infinitely
    wrong."""
    return {name: _error(candidate[name], oracle[name]) for name in oracle if name in candidate}


def _error(value: Tensor, exact: Tensor) -> float:
    if value.numel() != exact.numel():
        return float("inf")
    scale = float(exact.double().abs().max()) or 1.0
    return float(gap(value.reshape(exact.shape).cpu(), exact.cpu()).max()) / scale


def _slack(variant: Variant) -> float:
    own = SLACK * torch.finfo(getattr(torch, variant.dtype)).eps
    if variant.dtype in (
        "bfloat16",
        "float16",
    ):  # one unit is a whole percent: 64 of them say nothing
        own = REDUCED_SLACK * torch.finfo(getattr(torch, variant.dtype)).eps
    asked = REDUCED.get(variant.matmul_precision, 0.0)
    narrow = torch.finfo(torch.bfloat16).eps if variant.compute_dtype == "bfloat16" else 0.0
    return max(own, REDUCED_SLACK * asked, REDUCED_SLACK * narrow)
