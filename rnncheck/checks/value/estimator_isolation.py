"""Which estimates change with what another segment holds."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import Leak, changing, leaks
from rnncheck.checks.evidence.coupling import SUM_ROUNDING, Coupled, real_leaks
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.rewards import reward_keys
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.value.estimates import dropped, per_step
from rnncheck.pipeline.keys import Key


def estimator_leaks(evidence: Evidence, sample: Sample) -> tuple[list[Leak], bool]:
    """Leaks of the estimates that are no statistics of the batch, and whether any change changes
    them."""
    real, _, alive = evidence.once(
        "leaks of the estimates", lambda: _leaks(evidence, sample), sample
    )
    return real, alive


def statistics(evidence: Evidence, sample: Sample) -> set[str]:
    """Estimates of other segments that change as statistics of the batch do."""
    _, names, _ = evidence.once("leaks of the estimates", lambda: _leaks(evidence, sample), sample)
    return names


def rewards_run_on(evidence: Evidence, sample: Sample) -> bool:
    """Whether the rewards of another segment, by themselves, change an estimate."""
    keys = tuple(reward_keys(sample.td))
    if not keys:
        return False
    real, _, _ = evidence.once("leaks by rewards", lambda: _leaks(evidence, sample, keys), sample)
    return bool(real)


def _leaks(
    evidence: Evidence, sample: Sample, only: tuple[Key, ...] = ()
) -> tuple[list[Leak], set[str], bool]:
    def outputs(sample: Sample, td: TensorDictBase) -> dict[str, Tensor]:
        return per_step(evidence, sample, td)

    keys = [k for k in changing(evidence, sample, outputs) if not only or k in only]
    found, alive = leaks(sample, keys, outputs, tolerance=SUM_ROUNDING)
    if not found:
        return [], set(), alive
    # In another order other steps would be left out of the pass, and of its mean.
    ordered = not bool(dropped(evidence, sample).any())
    coupled = Coupled(sample, keys, outputs, ordered=ordered)
    real = real_leaks(evidence, coupled, found, SUM_ROUNDING)
    return real, {leak.name for leak in found} - {leak.name for leak in real}, alive
