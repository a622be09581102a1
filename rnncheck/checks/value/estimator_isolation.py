"""Which estimates change with another segment's observations."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import (
    Elements,
    Leak,
    leaks,
    observed,
    segments_of,
    without_memory,
)
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, memoryless_batch
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.value.estimates import per_step
from rnncheck.numerics.difference import gap

_ROUNDING = 1e-5  # of the largest entry: vectorised sums of rewards round over the whole row


def estimator_leaks(evidence: Evidence, sample: Sample) -> tuple[list[Leak], bool]:
    """Leaks that the memoryless twin does not have; a twin's leak counts where no network reads the
    flag."""

    def outputs(td: TensorDictBase) -> dict[str, Tensor]:
        return per_step(evidence, sample, td)

    found, alive = leaks(evidence, sample, outputs, tolerance=_ROUNDING)
    if not found:
        return [], alive
    alone = without_memory(outputs)
    twin, _ = leaks(
        evidence, sample, lambda td: alone(memoryless_batch(sample, td)), tolerance=_ROUNDING
    )
    natural = _forwards(evidence, sample, alone) if _couples_all(twin) else set[str]()
    return [leak for leak in found if leak.name not in natural], alive


def _couples_all(twin: list[Leak]) -> bool:
    """A normalisation over the batch changes (nearly) every step; a bootstrap over an end changes a
    few."""
    return any(leak.count > 0.5 * leak.of for leak in twin)


def _forwards(evidence: Evidence, sample: Sample, outputs: Elements) -> set[str]:
    """What most later steps of the memoryless twin change in with the first segments: it couples by
    nature.

    A sum of rewards that runs over an end goes backwards in time only.
    """
    segments = segments_of(sample)
    first = segments == segments[:, :1]
    changed = changed_batch(sample, first & sample.valid, observed(evidence, sample))
    before, after = (outputs(memoryless_batch(sample, td)) for td in (sample.td, changed))
    watch, found = ~first & sample.valid, set[str]()
    for name, old in before.items():
        if name in after and after[name].shape == old.shape:
            limit = _ROUNDING * float(old.double().abs().nan_to_num(0.0, 0.0, 0.0).max())
            moved = gap(after[name], old).flatten(2).amax(-1) > limit
            if int((moved & watch).sum()) > 0.5 * int(watch.sum()):
                found.add(name)
    return found
