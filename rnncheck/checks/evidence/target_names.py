"""Which of the entries that an estimator writes are targets."""

from __future__ import annotations

from rnncheck.checks.evidence.estimator_calls import made_by, written
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.rewards import paid_more, reward_keys
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import dotted

_STOCK = ("value_target", "advantage")


def target_names(evidence: Evidence, sample: Sample) -> list[str]:
    """TorchRL's, and those of the user's own."""
    return list(dict.fromkeys((*_STOCK, *_own(evidence, sample))))


def _own(evidence: Evidence, sample: Sample) -> list[str]:
    """What lines of the user's make that moves with rewards: a value of what is observed next does
    so at an end as well, and is no target."""
    own = [dotted(key) for key in made_by(evidence)]
    if not own or not reward_keys(sample.td):
        return own
    some = sample.valid.clone()
    some[:, ::2] = False
    base = written(evidence, sample, sample.td)
    paid = written(evidence, sample, paid_more(sample, sample.td, some))
    there = [name for name in own if name in base.keys() & paid.keys()]
    return [n for n in there if bool(bits_differ(base[n], paid[n]).any())]
