"""One variant of a recurrent module run on one case: outputs, end states and gradients."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from rnncheck.errors import first_line
from rnncheck.numerics.rollout import rollout
from rnncheck.pipeline.backends.case import CASE_SEED, Case
from rnncheck.pipeline.backends.facts import rnn_facts_of, rnn_parameters, torch_dtype
from rnncheck.pipeline.backends.swap import CannotSwap, exchange_rnn, policy_as
from rnncheck.pipeline.keys import Key, declared
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.results.variant import Compile, Variant

COMPILE_OPTIONS: Mapping[Compile, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "fullgraph": {"fullgraph": True},
}
STATES = ("h", "c")


class Refused(Exception):
    """The variant raised; the message is what it said, in one line."""


@dataclass(frozen=True)
class TrialOutcome:
    """``values``: ``output`` ``[rows, steps, hidden]`` and the end states ``h``, ``c``
    ``[rows, steps, layers, hidden]``, zero away from segment ends. ``gradients`` of a random mix of
    them: by parameter, ``input``, and ``stored h``, ``stored c``."""

    values: dict[str, Tensor]
    gradients: dict[str, Tensor]


Way = Callable[[nn.Module, TensorDictBase], TensorDictBase]


def run_trial(
    module: nn.Module, variant: Variant, case: Case, way: str = "call", *, device: str = "cpu"
) -> TrialOutcome:
    """Run a copy of ``module`` as ``variant``. Raises Refused with what it said."""
    try:
        network = policy_as(module, variant).to(device)
        if way == "converted and back":
            exchange_rnn(network, python_based=not variant.python_based)
            exchange_rnn(network, python_based=variant.python_based)
        network.requires_grad_(True)  # a frozen module has gradients too
        network.train(rnn_facts_of(network).dropout == 0)  # cuDNN's backward pass wants train()
        return _measured(network, variant, case, way, device)
    except CannotSwap as error:
        raise Refused(str(error)) from error
    except Exception as error:  # whatever a backend raises is its answer
        raise Refused(first_line(error)) from error


def _measured(
    network: nn.Module, variant: Variant, case: Case, way: str, device: str
) -> TrialOutcome:
    leaves = _leaves(case, torch_dtype(variant.dtype), device)
    call: Any = network
    if variant.compile != "eager":
        call = torch.compile(network, **COMPILE_OPTIONS[variant.compile])
    with measuring(recurrent=True, grad=True):  # the backward pass too, in the same precision
        out = CALL_WAYS[way](call, _batch(network, case, leaves, device))
        keys = declared(network, "out_keys")
        names = ("output", *rnn_facts_of(network).states)
        values = {name: out.get(key) for name, key in zip(names, keys, strict=True)}
        return trial_outcome(values, case, {**rnn_parameters(network), **leaves})


def trial_outcome(
    values: dict[str, Tensor], case: Case, leaves: Mapping[str, Tensor]
) -> TrialOutcome:
    """Mask the states to segment ends and differentiate a fixed random mix with respect to
    ``leaves``."""
    ends = case.ends.reshape(*case.ends.shape, 1, 1)
    kept = {
        name: value if name == "output" else torch.where(ends.to(value.device), value, 0.0)
        for name, value in values.items()
    }
    total = torch.stack([(value * _weights(value)).sum() for value in kept.values()]).sum()
    grads = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    pairs = zip(leaves.items(), grads, strict=True)
    return TrialOutcome(
        {name: value.detach().cpu() for name, value in kept.items()},
        {name: (torch.zeros_like(leaf) if g is None else g).cpu() for (name, leaf), g in pairs},
    )


def _weights(value: Tensor) -> Tensor:
    draw = torch.Generator().manual_seed(CASE_SEED)
    mix = torch.randn(value.shape, generator=draw, dtype=torch.float64)
    return mix.to(value.dtype).to(value.device)


def _leaves(case: Case, dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    """Inputs and stored states, in strides as they are, each a leaf of the graph."""
    given = {"input": case.inputs}
    given |= {f"stored {name}": part for name, part in zip(STATES, case.stored, strict=False)}
    return {name: _leaf(value, dtype, device) for name, value in given.items()}


def _leaf(value: Tensor, dtype: torch.dtype, device: str) -> Tensor:
    """A copy with the same strides: a backend that writes into its inputs must not change the
    case."""
    return value.detach().to(device=device, dtype=dtype, copy=True).requires_grad_()


def _batch(
    network: nn.Module, case: Case, leaves: Mapping[str, Tensor], device: str
) -> TensorDictBase:
    td = TensorDict({}, batch_size=case.starts.shape, device=device)
    reads: list[Key] = [key for key in declared(network, "in_keys") if key != ("is_init",)]
    for key, value in zip(reads, leaves.values(), strict=True):
        td.set(key, value)
    return td.set("is_init", case.starts.to(device).unsqueeze(-1))


def from_weights(
    weights: Mapping[str, Tensor], case: Case, dtype: torch.dtype = torch.float64
) -> TrialOutcome:
    """What the equations give on ``case``, step by step in ``dtype``; weights by ``torch.nn``'s
    names."""
    own = {name: value.detach().cpu().to(dtype).requires_grad_() for name, value in weights.items()}
    leaves = _leaves(case, dtype, "cpu")
    given = list(leaves.values())
    with torch.enable_grad():
        made = rollout(own, given[0], case.starts, given[1:])
        values = {"output": made.outputs} | dict(zip(STATES, made.states, strict=False))
        return trial_outcome(values, case, {**own, **leaves})


def _call(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    out: TensorDictBase = module(td)
    return out


def _in_a_thread(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    """The recurrent mode belongs to a thread: another one enters it for itself."""
    results: list[TensorDictBase | Exception] = []

    def target() -> None:
        try:
            with measuring(recurrent=True, grad=True):
                results.append(_call(module, td))
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def _canonical(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    made: TensorDictBase = module.canonicalize(td)  # type: ignore[operator]
    return _call(module, made)


def _vmapped(module: nn.Module, td: TensorDictBase) -> TensorDictBase:
    both: TensorDictBase = torch.vmap(lambda one: _call(module, one))(torch.stack([td, td]))
    return both[0]


CALL_WAYS: Mapping[str, Way] = {
    "call": _call,
    "in another thread": _in_a_thread,
    "canonicalize": _canonical,
    "converted and back": _call,
    "vmap": _vmapped,
}
