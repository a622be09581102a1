"""Steps that a loss fills in by itself: it lays its batch out in rows of one trajectory each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import copied, loss_of, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.instruments.module_calls import ModuleCalls
from rnncheck.pipeline.instruments.vmap import is_batched
from rnncheck.pipeline.placing import on_cpu

_DIMS = 3  # rows, steps, features


def weight_of_padding(evidence: Evidence, sample: Sample) -> tuple[int, float]:
    """How many steps recurrent modules inside the loss get that its batch has not, zeros up to the
    end of a row beside its data, and the largest gradient of the loss there, relative to the
    largest at the data. Torch's own layers are asked where no module is one that is known."""
    loss = copied(loss_of(evidence))
    with ModuleCalls(probing=True) as inside, _LayerProbes() as layers:
        run = run_loss(evidence, sample, loss=loss, per_element=False)
    modules = [([p.probe], p.x.reshape(*p.shape, -1)) for p in inside.passes if p.probe is not None]
    passes = [one for one in modules if one[1].ndim == _DIMS] or list(layers.passes())
    asked = [(probes, blank) for probes, x in passes if (blank := _blank(x, sample)) is not None]
    if not asked or not run.total.requires_grad:
        return 0, 0.0
    given = [probe for probes, _ in asked for probe in probes]
    grads = iter(torch.autograd.grad(run.total, given, allow_unused=True))
    largest = 0.0
    for probes, blank in asked:
        mine = [next(grads) for _ in probes]
        if any(grad is None for grad in mine):
            continue
        size = _sizes([on_cpu(grad.detach()) for grad in mine], blank.shape)
        most = float(size[~blank].max())
        largest = max(largest, float(size[blank].max()) / most if most else 0.0)
    return max(int(blank.sum()) for _, blank in asked), largest


def _sizes(grads: list[Tensor], shape: torch.Size) -> Tensor:
    """``[rows, steps]``: of one gradient for all steps, or of one for each."""
    whole = grads[0].reshape(*shape, -1) if len(grads) == 1 else torch.stack(grads, 1)
    return whole.abs().amax(-1)


def _blank(x: Tensor, sample: Sample) -> Tensor | None:
    """``[rows, steps]`` of the pass that is given ``x``: what was filled in; None where there is
    nothing beyond the batch's data, of which some may be left out. Layers ahead of the module make
    one and the same vector of what is filled in."""
    most = int(sample.valid.sum())
    if x.shape[:2].numel() <= sample.valid.numel():
        return None
    for filling in x[:, -1].unique(dim=0):
        blank: Tensor = (x == filling).all(-1).flip(1).long().cumprod(1).flip(1).bool()
        if 0 < int((~blank).sum()) <= most:
            return blank
    return None


class _LayerProbes:
    """While the context is open, adds zeros to what torch's recurrent layers are given, at which
    gradients can be asked for."""

    def __init__(self) -> None:
        self._calls: dict[tuple[nn.Module, torch.Size], list[tuple[Tensor, Tensor]]] = {}

    def __enter__(self) -> _LayerProbes:
        self._handle = register_module_forward_pre_hook(self._runs)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _runs(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        layer = isinstance(module, (nn.RNNBase, nn.RNNCellBase)) and torch.is_grad_enabled()
        if not layer or not args or not isinstance(args[0], Tensor) or is_batched(args[0]):
            return None
        probe = torch.zeros_like(args[0], requires_grad=True)
        self._calls.setdefault((module, args[0].shape), []).append((probe, args[0].detach()))
        return (args[0] + probe, *args[1:])

    def passes(self) -> Iterator[tuple[list[Tensor], Tensor]]:
        """The probes of each pass, and what it was given as ``[rows, steps, features]``: a layer
        that is called on all steps, or as often as there are some."""
        for (module, shape), calls in self._calls.items():
            probes, given = [probe for probe, _ in calls], [on_cpu(x) for _, x in calls]
            if isinstance(module, nn.RNNCellBase) and len(shape) == _DIMS - 1:
                yield probes, torch.stack(given, 1)
            elif getattr(module, "batch_first", False) and len(shape) == _DIMS:
                yield from (([probe], x) for probe, x in zip(probes, given, strict=True))
