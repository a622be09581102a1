"""The gradient of a loss at what layers behind a memory give for each step: it tells which steps an
entry weighs where no mark cuts the memory itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, copied, loss_of, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.instruments.vmap import is_batched

_FEWEST = 4  # steps: one is changed that has some on either side


@dataclass(frozen=True)
class _Layer:
    """Calls of one layer, by number, that give something of each step: one of all of them, one for
    each, or with ``parts`` one for each piece of a single row; ``first`` is what comes first in
    what they give, ``owner`` whose calls they are. With ``more`` steps behind these: what is
    observed next behind the last."""

    calls: tuple[int, ...]
    first: str
    owner: nn.Module
    more: int = 0
    parts: bool = False

    def laid(self, given: list[Tensor], rows: int, steps: int) -> Tensor:
        """What they gave, ``[rows, steps, features]``."""
        if self.parts:
            return torch.cat([given[n].flatten(0, -2) for n in self.calls]).unsqueeze(0)
        if len(self.calls) > 1:
            return torch.stack([given[n].reshape(rows, -1) for n in self.calls], 1)
        value, whole = given[self.calls[0]], steps + self.more
        if self.first == "rows":
            return value.reshape(rows, whole, -1)[:, :steps]
        return value.reshape(whole, rows, -1).transpose(0, 1)[:, :steps]


def layer_gradients(evidence: Evidence, sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
    """By layer ``[rows, steps, features]``; empty where no layer gives something of each step that
    earlier steps move."""
    layers = evidence.once("layers behind a memory", lambda: _layers(evidence, sample), sample)
    if not layers:
        return {}
    noted, total = _run(evidence, sample, td)
    outputs = noted.given
    if max(n for one in layers for n in one.calls) >= len(outputs) or not total.requires_grad:
        return {}
    wanted = [outputs[n] for one in layers for n in one.calls]
    grads = torch.autograd.grad(total, wanted, allow_unused=True)
    given = [torch.zeros_like(one, device="cpu") for one in outputs]
    numbers = (n for one in layers for n in one.calls)
    for number, grad in zip(numbers, grads, strict=True):
        given[number] = given[number] if grad is None else grad.detach().cpu()
    rows, steps = sample.valid.shape
    return {_name(number): one.laid(given, rows, steps) for number, one in enumerate(layers)}


def layers_that_act(evidence: Evidence, sample: Sample) -> set[str]:
    """The names in ``layer_gradients`` of those with weights that act."""
    layers = evidence.once("layers behind a memory", lambda: _layers(evidence, sample), sample)
    acting = [weight.detach().cpu() for weight in evidence.policy.module.parameters()]
    return {
        _name(number)
        for number, one in enumerate(layers)
        if any(_is_one_of(weight.detach().cpu(), acting) for weight in one.owner.parameters())
    }


def _is_one_of(weight: Tensor, weights: list[Tensor]) -> bool:
    return any(one.shape == weight.shape and torch.equal(one, weight) for one in weights)


def _name(number: int) -> str:
    return f"layer {number}"


def _layers(evidence: Evidence, sample: Sample) -> list[_Layer]:
    rows, steps = sample.valid.shape
    if steps < _FEWEST:
        return []
    at = torch.zeros_like(sample.valid)
    at[rows // 2, steps // 2] = True
    keys = [key for key in observed(evidence, sample) if key[0] != "next"]
    noted = _run(evidence, sample, sample.td)[0]
    base, other = noted.given, _run(evidence, sample, changed_batch(sample, at, keys))[0].given
    if [one.shape for one in base] != [one.shape for one in other]:
        return []
    moved = [
        bits_differ(one.detach().cpu(), two.detach().cpu())
        for one, two in zip(base, other, strict=True)
    ]
    return [
        one
        for one in _candidates(base, noted.owners, rows, steps)
        if all(base[n].requires_grad and noted.untouched[n] for n in one.calls)
        and _behind_memory(one.laid(moved, rows, steps).any(-1), at)
    ]


def _candidates(
    given: list[Tensor], owners: list[nn.Module], rows: int, steps: int
) -> Iterator[_Layer]:
    """What may be laid out in rows and steps."""
    single = dict[int, list[int]]()
    for number, value in enumerate(given):
        lead = tuple(size for size in value.shape[:-1] if size != 1)
        for more in (0, 1):
            whole = steps + more
            if lead in ((rows, whole), (rows * whole,)) or (rows == 1 and lead == (whole,)):
                yield _Layer((number,), "rows", owners[number], more)
            if lead in ((whole, rows), (rows * whole,)) and rows > 1:
                yield _Layer((number,), "steps", owners[number], more)
        if value.shape[:-1].numel() == rows or (len(lead) > 1 and lead[0] == rows):
            single.setdefault(id(owners[number]), []).append(number)  # for each agent, maybe
    yield from _in_parts(given, owners, steps) if rows == 1 else ()
    for numbers in single.values():
        whole = next((one for one in (steps, steps + 1) if len(numbers) % one == 0), 0)
        for begin in range(0, len(numbers), whole) if whole else ():
            calls = tuple(numbers[begin : begin + steps])
            yield _Layer(calls, "rows", owners[numbers[0]], whole - steps)


def _in_parts(given: list[Tensor], owners: list[nn.Module], steps: int) -> Iterator[_Layer]:
    """Calls of one layer on one trajectory after the other, which lie end to end in a row."""
    calls = dict[int, list[int]]()
    for number, value in enumerate(given):
        if value.ndim > 1:
            calls.setdefault(id(owners[number]), []).append(number)
    for numbers in calls.values():
        if len(numbers) > 1 and sum(given[n].shape[:-1].numel() for n in numbers) == steps:
            yield _Layer(tuple(numbers), "rows", owners[numbers[0]], parts=True)


def _behind_memory(moved: Tensor, at: Tensor) -> bool:
    """Whether the change of one step moved it and later steps of its row, and nothing else."""
    ((row, step),) = at.nonzero().tolist()
    others = moved.clone()
    others[row, step:] = False
    return bool(moved[row, step]) and bool(moved[row, step + 1 :].any()) and not bool(others.any())


def _run(evidence: Evidence, sample: Sample, td: TensorDictBase) -> tuple[LayerOutputs, Tensor]:
    with LayerOutputs() as noted:
        loss = copied(loss_of(evidence))
        total = run_loss(evidence, sample, td, loss=loss, per_element=False).total
    return noted, total


class LayerOutputs:
    """Notes what layers with weights of their own give while the context is open; not cells, whose
    outputs are handed on as states."""

    def __init__(self) -> None:
        self.given = list[Tensor]()
        self.owners = list[nn.Module]()
        self.untouched = list[bool]()  # no step of an optimiser came before it
        self._versions = dict[int, int]()

    def __enter__(self) -> LayerOutputs:
        self._handle = register_module_forward_hook(self._gave)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _gave(self, module: nn.Module, _inputs: object, result: Any) -> None:
        value = result[0] if isinstance(module, nn.RNNBase) else result
        if isinstance(module, nn.RNNCellBase) or module._modules or not module._parameters:
            return
        weight = next(module.parameters(), None)
        if weight is None:  # a norm without any
            return
        if isinstance(value, Tensor) and not is_batched(value) and value.ndim > 1:
            self.given.append(value)
            self.owners.append(module)
            version = weight._version
            self.untouched.append(self._versions.setdefault(id(module), version) == version)
