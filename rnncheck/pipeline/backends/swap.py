"""A policy with another backend: the same weights in a copy whose LSTMModules and GRUModules run
another way."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, cast

import torch
from torch import nn

from rnncheck.pipeline.backends.facts import (
    MODULE_SETTINGS,
    is_python_based,
    rnn_parameters,
    torch_dtype,
    variant_of,
)
from rnncheck.pipeline.copying.copies import CannotCopy, copy_of
from rnncheck.pipeline.subject.stock import is_stock, rnn_of
from rnncheck.results.variant import Backend, Dtype, Variant

Module = TypeVar("Module", bound=nn.Module)


class CannotSwap(Exception):
    """The policy cannot be rebuilt; the message says why."""


def recurrent_modules(policy: nn.Module) -> dict[str, nn.Module]:
    """Every LSTMModule and GRUModule (or subclass) inside, by path; a module used twice is listed
    once."""
    return {
        path: module
        for path, module in policy.named_modules()
        if is_stock(module) and rnn_of(module) is not None
    }


def policy_copy(policy: Module) -> Module:
    """A copy of ``policy`` as it is. Raises CannotSwap where it cannot be copied."""
    try:
        return copy_of(policy, "the policy")
    except CannotCopy as error:
        raise CannotSwap(str(error)) from error


def variant_inside(policy: nn.Module) -> Variant:
    """How the first LSTMModule or GRUModule runs as it is; without one, eagerly in the dtype of the
    parameters."""
    for module in recurrent_modules(policy).values():
        return variant_of(module)
    dtypes = [p.dtype for p in policy.parameters() if p.is_floating_point()]
    name = str(dtypes[0]).removeprefix("torch.") if dtypes else "float32"
    return Variant(dtype=cast(Dtype, name))


def policy_as(policy: Module, variant: Variant) -> Module:
    """A copy of ``policy`` in which every LSTMModule and GRUModule runs as ``variant`` says.

    RNNs of the user's own and all other modules are copied as they are; only ``variant.dtype``
    reaches them as well, where it is not the dtype that the recurrent modules had.
    ``variant.compile`` is the caller's to apply.
    """
    found = policy_copy(policy)
    modules = recurrent_modules(found)
    for module in modules.values():
        _set(module, variant)
    if any(variant_of(module).dtype != variant.dtype for module in modules.values()):
        found = found.to(torch_dtype(variant.dtype))
    return found


def _set(module: nn.Module, variant: Variant) -> None:
    """Change one module in place, as its constructor would have built it."""
    for field, attribute in MODULE_SETTINGS.items():
        if hasattr(module, attribute):
            setattr(module, attribute, _value(field, variant))
    if variant.python_based != is_python_based(module):
        exchange_rnn(module, python_based=variant.python_based)
    if variant.backend == "scan":
        _warm(module)


def _value(field: str, variant: Variant) -> object:
    value = getattr(variant, field)
    return torch_dtype(value) if field == "compute_dtype" else value


def exchange_rnn(module: nn.Module, *, python_based: bool) -> None:
    """Exchange the RNN inside for TorchRL's Python one or for ``torch.nn``'s; the parameters are
    kept."""
    name = "make_python_based" if python_based else "make_cudnn_based"
    method = getattr(module, name, None)
    if method is None:
        raise CannotSwap(f"this TorchRL's {type(module).__name__} has no {name}()")
    training = module.training
    method()
    module.train(training)


def _warm(module: nn.Module) -> None:
    """What the constructor does for scan: prepare the backward pass for the module's device."""
    from torchrl.modules.tensordict_module import rnn

    warm = getattr(rnn, "_maybe_warm_scan_backward", None)
    device = next((p.device for p in rnn_parameters(module).values()), torch.device("cpu"))
    if warm is not None:
        warm(device)


def own_variant(module: nn.Module, backend: Backend) -> Variant:
    """The module's own settings with another backend; recomputation stays where the backend knows
    it."""
    own = variant_of(module)
    keeps = backend in ("scan", "triton")
    return replace(own, backend=backend, recompute=own.recompute if keeps else "none")
