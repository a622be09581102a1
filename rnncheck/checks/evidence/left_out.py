"""Whether a loss or an estimator leaves the memory out: nothing that carries state runs in it, so
that its batch may be single steps in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.coupling import REORDERED, reordered
from rnncheck.checks.evidence.estimator_calls import batches, estimated, estimator_copy, written
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    each_sample,
    loss_of,
    run_loss,
)
from rnncheck.checks.evidence.trained_memory import trains_memory
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import NotApplicable, Unanswered
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.copying.holdings import trained_parameters
from rnncheck.pipeline.instruments.trained_parameters import recurrent_parameters

OF_THE_LOSS = "nothing that carries state runs in this loss, and another loss trains what does"
OF_THE_ESTIMATOR = "nothing that carries state runs in the estimator"
_STRENGTH = 1.0  # of the noise, in mean sizes of what it is added to


def needs_sequence(evidence: Evidence) -> None:
    """Unanswered where the loss may train on single steps."""
    if loss_leaves_out(evidence):
        raise NotApplicable(OF_THE_LOSS)


def loss_leaves_out(evidence: Evidence) -> bool:
    """Whether no memory runs in this loss, and another one of the script trains it: a loss that is
    alone should run it."""
    return evidence.once("memory left out of the loss", lambda: _loss(evidence))


def _loss(evidence: Evidence) -> bool:
    if not any(map(trains_memory, evidence.others)):
        return False
    try:
        sample = next((sample for _, sample in each_sample(evidence)), None)
        if sample is None:
            return False
        loss = copied(loss_of(evidence))

        def gives() -> dict[str, Tensor]:
            return {"loss": run_loss(evidence, sample, loss=loss, per_element=False).total}

        left_out = _does_not_matter(
            evidence, loss, pipeline_holds=evidence.pipeline.loss, gives=gives
        )
        return left_out and _in_any_order(evidence, sample)
    except Unanswered:
        return False


def _in_any_order(evidence: Evidence, sample: Sample) -> bool:
    """Whether the loss is the same whatever the order of its steps: no memory that nobody knows
    runs over them either, and no sum of rewards."""
    order = torch.randperm(sample.valid.numel(), generator=torch.Generator().manual_seed(0))
    turned = reordered(sample, order)
    totals = [
        float(run_loss(evidence, one, loss=copied(loss_of(evidence)), per_element=False).total)
        for one in (sample, turned)
    ]
    return abs(totals[0] - totals[1]) <= REORDERED * max(map(abs, totals))


def estimator_leaves_out(evidence: Evidence) -> bool:
    """Whether no memory runs in the estimator."""
    return evidence.once("memory left out of the estimator", lambda: _estimator(evidence))


def _estimator(evidence: Evidence) -> bool:
    try:
        sample = batches(evidence)[0]
        made = estimator_copy(evidence)
        left_out = _does_not_matter(
            evidence,
            made,
            pipeline_holds=evidence.pipeline.estimator,
            gives=lambda: estimated(evidence, sample.td, made),
        )
        return left_out and not _runs_forward(evidence, sample)
    except Unanswered:
        return False


def _runs_forward(evidence: Evidence, sample: Sample) -> bool:
    """Whether an estimate at later steps moves with what is observed at earlier ones, and not the
    other way round: a memory that nobody knows. Returns run backwards, statistics both ways."""
    steps = sample.valid.shape[1]
    early = (torch.arange(steps) < steps // 2).expand_as(sample.valid)
    keys = [key for key in observed(evidence, sample) if key[0] != "next"]
    base = written(evidence, sample, sample.td)

    def moved(touched: Tensor) -> set[str]:
        after = written(evidence, sample, changed_batch(sample, touched & sample.valid, keys))
        same = (name for name in base if name in after and after[name].shape == base[name].shape)
        return {n for n in same if bool(bits_differ(base[n], after[n])[~touched].any())}

    return bool(moved(early) - moved(~early))


def _does_not_matter(
    evidence: Evidence, holder: Any, *, pipeline_holds: Any, gives: Callable[[], dict[str, Tensor]]
) -> bool:
    """Whether no recurrent layer and no module with weights of the memory runs, and other weights
    of it change nothing to the bit. ``holder`` is a copy: what it shares with the user's is left as
    it is."""
    with _Modules() as modules:
        before = gives()
    memory, _ = recurrent_parameters(holder, evidence.pipeline, evidence.subjects)
    if modules.recurrent or any(id(one) in modules.weights for one in memory.values()):
        return False
    theirs = {id(one) for one in trained_parameters(pipeline_holds).values()}
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for one in memory.values():
            if id(one) not in theirs:
                noise = torch.randn(one.shape, generator=draw).to(one)
                one += _STRENGTH * (float(one.abs().mean()) or 1.0) * noise
    after = gives()
    return before.keys() == after.keys() and all(
        torch.equal(value.nan_to_num(), after[name].nan_to_num()) for name, value in before.items()
    )


class _Modules:
    """Notes which modules run while the context is open."""

    def __init__(self) -> None:
        self.recurrent = False  # one of torch's recurrent layers
        self.weights = set[int]()  # of all of them, by id

    def __enter__(self) -> _Modules:
        self._handle = register_module_forward_pre_hook(self._runs)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _runs(self, module: nn.Module, _inputs: object) -> None:
        self.recurrent = self.recurrent or isinstance(module, (nn.RNNBase, nn.RNNCellBase))
        self.weights |= {id(one) for one in module._parameters.values() if one is not None}
