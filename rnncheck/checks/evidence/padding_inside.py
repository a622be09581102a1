"""Steps that a loss fills in by itself: it lays its batch out in rows of one trajectory each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.utils.rnn import PackedSequence

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, copied, loss_of, run_loss
from rnncheck.checks.evidence.packed_rows import PackedRows
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.pipeline.instruments.module_calls import ModuleCalls
from rnncheck.pipeline.instruments.vmap import has_no_graph_of_its_own
from rnncheck.pipeline.placing import on_cpu

_DIMS = 3  # rows, steps, features
_SEEDS = (3, 4)  # of what is observed instead: layers may give the same for one of them
_FEWEST = 2  # filled steps: any last step of one row is like itself


def weight_of_padding(evidence: Evidence, sample: Sample) -> tuple[int, float]:
    """How many steps recurrent modules inside the loss get that its batch has not, zeros up to the
    end of a row beside its data, and the largest gradient of the loss there, relative to the
    largest at the data. Torch's own layers are asked where they are in no module that is known, and
    behind one that runs over packed rows those that are given these with zeros at their ends."""
    total, passes = _passes(evidence, sample, sample.td)
    asked = [(one, blank) for one in passes if (blank := _blank(one, sample)) is not None]
    asked = asked or _of_some(evidence, sample, passes)
    if not asked or not total.requires_grad:
        return 0, 0.0
    given = [probe for one, _ in asked for probe in one.probes]
    grads = iter(torch.autograd.grad(total, given, allow_unused=True))
    count, largest = 0, 0.0
    for one, blank in asked:
        mine: list[Tensor | None] = [next(grads) for _ in one.probes]
        if all(grad is None for grad in mine):  # the loss makes nothing of this pass
            continue
        if bool(blank.all()):  # a pass of zeros alone has no data
            continue
        size = one.sizes(mine)
        most = float(size[~blank].max())
        largest = max(largest, float(size[blank].max()) / most if most else 0.0)
        count = max(count, int(blank.sum()))
    return count, largest


def _passes(evidence: Evidence, sample: Sample, td: TensorDictBase) -> tuple[Tensor, list[_Pass]]:
    """The loss of ``td``, and what its recurrent parts are given."""
    loss = copied(loss_of(evidence))
    with ModuleCalls(probing=True) as inside, _LayerProbes() as layers:
        run = run_loss(evidence, sample, td, loss=loss, per_element=False)
    known = {id(part) for one in inside.passes for part in all_modules(one.module)}
    return run.total, [*_of_modules(inside), *layers.passes(known)]


def _of_some(
    evidence: Evidence, sample: Sample, passes: Sequence[_Pass]
) -> list[tuple[_Pass, Tensor]]:
    """The passes over some of the rows (a minibatch) and what was filled in there: all else is
    changed where every step shows something else."""
    cut = [_filled(one.x) for one in passes]
    if all(blank is None for blank in cut):
        return []
    moved = [torch.zeros_like(one.x, dtype=torch.bool).any(-1) for one in passes]
    for seed in _SEEDS:
        other = changed_batch(sample, sample.valid, observed(evidence, sample), seed=seed)
        try:
            _, others = _passes(evidence, sample, other)
        except Unanswered:  # a loss that takes certain numbers alone
            return []
        if [one.x.shape for one in others] != [one.x.shape for one in passes]:
            return []
        pairs = zip(moved, passes, others, strict=True)
        moved = [now | bits_differ(one.x, two.x).any(-1) for now, one, two in pairs]
    there = zip(passes, moved, cut, strict=True)
    return [(one, ~now) for one, now, blank in there if blank is not None and _is_end(~now, blank)]


def _is_end(still: Tensor, filled: Tensor) -> bool:
    """Whether steps that show nothing of the batch are ends of what is one and the same vector."""
    behind = still.flip(1).long().cumprod(1).flip(1).bool()
    return torch.equal(still, behind & filled) and int(still.sum()) >= _FEWEST


@dataclass(frozen=True)
class _Pass:
    """What a pass was given, ``[rows, steps, features]``, and the zeros that were added to it: at
    once, or at each step. ``time_first`` as it got them; ``filled`` where it is known what is."""

    x: Tensor
    probes: list[Tensor]
    time_first: bool = False
    filled: Tensor | None = None

    def sizes(self, grads: list[Tensor | None]) -> Tensor:
        """``[rows, steps]``: the largest gradient at each step; none is zero."""
        pairs = zip(self.probes, grads, strict=True)
        found = [torch.zeros_like(p) if g is None else g.detach() for p, g in pairs]
        whole = on_cpu(found[0] if len(found) == 1 else torch.stack(found, 1))
        whole = whole.transpose(0, 1) if self.time_first else whole
        largest: Tensor = whole.reshape(*self.x.shape[:2], -1).abs().amax(-1)
        return largest


def _of_modules(inside: ModuleCalls) -> Iterator[_Pass]:
    for one in inside.passes:
        if one.probe is not None and len(one.shape) == _DIMS - 1:
            yield _Pass(one.x.reshape(*one.shape, -1), [one.probe])


def _blank(one: _Pass, sample: Sample) -> Tensor | None:
    """``[rows, steps]`` of the pass: what was filled in; None where there is nothing beyond the
    batch's data, of which some may be left out."""
    x = one.x
    if one.filled is not None:
        return one.filled
    if x.shape[:2].numel() <= sample.valid.numel():
        return None
    blank = _filled(x)
    within = blank is not None and int((~blank).sum()) <= int(sample.valid.sum())
    return blank if within else None


def _filled(x: Tensor) -> Tensor | None:
    """``[rows, steps]``: one and the same vector, which layers ahead of the module make of what is
    filled in, up to the end of rows. No data ends more rows, or longer ones."""
    found: list[Tensor] = [
        (x == filling).all(-1).flip(1).long().cumprod(1).flip(1).bool()
        for filling in x[:, -1].unique(dim=0)
    ]
    counts = [int(blank.sum()) for blank in found]
    most = max(counts)
    return None if most < _FEWEST or counts.count(most) > 1 else found[counts.index(most)]


class _LayerProbes:
    """While the context is open, adds zeros to what torch's recurrent layers are given, at which
    gradients can be asked for."""

    def __init__(self) -> None:
        self._calls: dict[tuple[nn.Module, torch.Size], list[tuple[Tensor, Tensor]]] = {}
        self._packed = PackedRows()

    def __enter__(self) -> _LayerProbes:
        self._handle = register_module_forward_pre_hook(self._runs)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _runs(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        if not torch.is_grad_enabled() or not args or has_no_graph_of_its_own():
            return None
        layer = isinstance(module, (nn.RNNBase, nn.RNNCellBase))
        if layer and isinstance(args[0], PackedSequence):
            self._packed.packed(args[0])
        if not isinstance(args[0], Tensor):
            return None
        if not layer:
            found = self._packed.probed(module, args[0])
            return None if found is None else (found, *args[1:])
        probe = torch.zeros_like(args[0], requires_grad=True)
        self._calls.setdefault((module, args[0].shape), []).append((probe, args[0].detach()))
        return (args[0] + probe, *args[1:])

    def passes(self, known: set[int]) -> Iterator[_Pass]:
        """Those of a layer that is called on all steps, or as often as there are some; without the
        ``known``, by id, which lay their data out by themselves."""
        asked = (one for one in self._calls.items() if id(one[0][0]) not in known)
        for (module, shape), calls in asked:
            probes, given = [probe for probe, _ in calls], [on_cpu(x) for _, x in calls]
            if isinstance(module, nn.RNNCellBase) and len(shape) == _DIMS - 1:
                yield _Pass(torch.stack(given, 1), probes)
            elif isinstance(module, nn.RNNBase) and len(shape) == _DIMS:
                first = not module.batch_first
                for probe, x in zip(probes, given, strict=True):
                    yield _Pass(x.transpose(0, 1) if first else x, [probe], first)
        for one in self._packed:
            yield _Pass(one.x, [one.probe], one.time_first, one.blank)
