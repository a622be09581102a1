"""Whether recurrent layers of torch that a loss calls step by step are handed their states without
a graph: those of a critic that never acts, which no pass of a policy shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    loss_of,
    parameters_of,
    run_loss,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.instruments.vmap import is_batched
from rnncheck.pipeline.placing import on_cpu

OUTPUT = "output of "
TELLING = 3  # states that are handed on: chosen, a bootstrap behind a pass hands on a single one


def cut_layer(evidence: Evidence, sample: Sample) -> str | None:
    """The name of a layer that is handed each of its own states without a graph, while the loss
    trains it; empty where layers are handed theirs with one, None where none is called step by
    step. On other observations than the batch's: a stored state is then no longer what the layer
    gives."""
    told = [one for one in _trained(evidence, sample) if one.handed_on >= TELLING]
    cut = (one.name for one in told if not one.with_graph and one.name)
    return next(cut, "" if told else None)


def layer_without_state(evidence: Evidence, sample: Sample) -> str | None:
    """The name of a layer that the loss trains and calls step by step, every time from zero."""
    for one in _trained(evidence, sample):
        if one.name and not one.whole and not one.held and len(one.given) > TELLING:
            return one.name
    return None


def layer_outputs(evidence: Evidence, sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
    """What layers that are called once for each step of the rows give there, ``[rows, steps,
    hidden]``, by name; with several passes each by itself, whether they come one after the other or
    by turns. A pass may go on to the observation behind the last step, which is left out."""
    rows, steps = sample.valid.shape
    found = dict[str, Tensor]()
    for one in _noted(evidence, sample, td):
        alone = not one.whole and one.given[0].shape[-2:-1] == (rows,)
        length = _calls_of_a_pass(len(one.given), steps) if alone else 0
        name = f"{OUTPUT}{one.name or 'a layer'}"
        for told, given in _by_pass(one.given, length) if length else ():
            laid = [value.reshape(rows, -1) for value in given[:steps]]
            found[name + told] = on_cpu(torch.stack(laid, 1))
    return found


def _by_pass(given: list[Tensor], length: int) -> Iterator[tuple[str, list[Tensor]]]:
    """Each pass that the calls may be, and how it is told from the first."""
    passes = len(given) // length
    for n in range(passes):
        yield f" (pass {n + 1})" if n else "", given[n * length : (n + 1) * length]
    for n in range(passes if passes > 1 else 0):
        yield f" (call {n + 1} at each step)", given[n::passes]


def in_order(evidence: Evidence, sample: Sample) -> set[str]:
    """The names in ``layer_outputs`` of what stands as the batch does: an observation moves nothing
    but its own step and later ones of its row. Rows that the loss cuts and mixes do not, nor do
    calls of several passes by turns."""
    rows, steps = sample.valid.shape
    root = [key for key in observed(evidence, sample) if key[0] != "next"]
    base = layer_outputs(evidence, sample, sample.td)
    left = set(base)
    for row, step in ((rows // 2, steps // 2), (rows - 1, 1 % steps)):
        at = torch.zeros_like(sample.valid)
        at[row, step] = True
        after = layer_outputs(evidence, sample, changed_batch(sample, at, root)) if left else {}
        for name in left & after.keys():
            moved = bits_differ(base[name], after[name]).any(-1)
            own = bool(moved[row, step])
            moved[row, step:] = False
            left -= set() if own and not bool(moved.any()) else {name}
        left &= after.keys()
    return left


def _calls_of_a_pass(count: int, steps: int) -> int:
    """Over the steps, or over one more; 0 for neither."""
    if count % steps == 0:
        return steps
    return 0 if count % (steps + 1) else steps + 1


def _trained(evidence: Evidence, sample: Sample) -> list[LayerStates]:
    def noted() -> list[LayerStates]:
        root = [key for key in observed(evidence, sample) if key[0] != "next"]
        return _noted(evidence, sample, changed_batch(sample, sample.valid, root))

    return evidence.once("states of layers", noted, sample)


def _noted(evidence: Evidence, sample: Sample, td: TensorDictBase) -> list[LayerStates]:
    loss = copied(loss_of(evidence))
    with _Layers() as layers:
        run_loss(evidence, sample, td, loss=loss, per_element=False)
    names = {id(weight): name for name, weight in parameters_of(loss)}
    for one in layers.seen.values():
        one.name = names.get(id(one.weight), "").rpartition(".")[0]
    return list(layers.seen.values())


@dataclass
class LayerStates:
    """Of one layer how often it got a state of its own, whether ever with a graph, and whether it
    ever was called on ``whole`` sequences or ``held`` a state other than zero. It has a ``name``
    where the loss trains it."""

    weight: Tensor
    given: list[Tensor] = field(default_factory=list)
    handed_on: int = 0
    with_graph: bool = False
    whole: bool = False
    held: bool = False
    name: str = ""


class _Layers:
    """Notes layers that build a graph while the context is open."""

    def __init__(self) -> None:
        self.seen = dict[int, LayerStates]()

    def __enter__(self) -> _Layers:
        self._handle = register_module_forward_hook(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _called(self, module: nn.Module, args: Any, result: Any) -> None:
        if not isinstance(module, (nn.RNNBase, nn.RNNCellBase)) or not torch.is_grad_enabled():
            return
        last = _first(result[1] if isinstance(module, nn.RNNBase) else result)
        if last is None or is_batched(last) or not last.requires_grad:
            return
        weight = next(module.parameters(), None)
        if weight is None:  # those of a target network, in its place for one call: nothing learns
            return
        layer = self.seen.setdefault(id(module), LayerStates(weight))
        state = _first(args[1]) if len(args) > 1 else None
        if state is not None and any(_comes_from(state, one) for one in layer.given):
            layer.handed_on += 1
            layer.with_graph = layer.with_graph or state.requires_grad
        layer.held = layer.held or (state is not None and bool(state.any()))
        layer.whole = layer.whole or _steps(module, args[0]) > 1
        layer.with_graph = layer.with_graph or layer.whole
        layer.given.append(last.detach())


def _first(value: Any) -> Tensor | None:
    """The state, or of an LSTM's two the hidden one."""
    one = value[0] if isinstance(value, tuple) else value
    return one if isinstance(one, Tensor) else None


def _comes_from(state: Tensor, given: Tensor) -> bool:
    """Whether it is that, in some rows put back to zero."""
    if state.shape != given.shape:
        return False
    own = state.detach()
    same = (own == given).all(-1)
    return bool((same | (own == 0).all(-1)).all()) and bool((same & (own != 0).any(-1)).any())


def _steps(module: nn.Module, x: Any) -> int:
    """How many steps a call runs over."""
    if not isinstance(module, nn.RNNBase):
        return 1
    data = x.data if isinstance(x, nn.utils.rnn.PackedSequence) else x
    batched = data.ndim > 2
    return int(data.shape[1 if batched and module.batch_first else 0])
