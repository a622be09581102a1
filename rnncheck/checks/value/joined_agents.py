"""Whether one of TorchRL's estimators sums over the agents of a step, in the place of its steps."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.coupling import SUM_ROUNDING
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.rewards import reward_keys
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.value.estimates import per_step
from rnncheck.numerics.difference import Difference, gap, locate
from rnncheck.pipeline.compat import sums_over_time


def joins_agents(evidence: Evidence, sample: Sample) -> tuple[str, Difference] | None:
    """What the estimator writes of one agent that changes with the reward of another one, and
    where: the estimates of a step have a number for each agent, as its rewards do."""
    if not sums_over_time(evidence.pipeline.estimator):
        return None
    for key in reward_keys(sample.td):
        agents = sample.td.get(key).reshape(*sample.rows.shape, -1).shape[-1]
        found = _joined(evidence, sample, key, agents) if agents > 1 else None
        if found is not None:
            return found
    return None


def _joined(
    evidence: Evidence, sample: Sample, key: tuple[str, ...], agents: int
) -> tuple[str, Difference] | None:
    base = per_step(evidence, sample, sample.td)
    after = per_step(evidence, sample, _paid_more(sample, key))
    for name, old in base.items():
        new = after.get(name)
        wide = old.reshape(*sample.rows.shape, -1)
        if new is None or new.shape != old.shape or wide.shape[-1] != agents:
            continue
        others = gap(new, old).reshape(wide.shape)[..., :-1]
        limit = SUM_ROUNDING * float(wide.double().abs().nan_to_num(0.0, 0.0, 0.0).max())
        difference = locate(others * sample.valid.unsqueeze(-1), limit, wide[..., :-1])
        if difference is not None:
            return name, difference
    return None


def _paid_more(sample: Sample, key: tuple[str, ...]) -> TensorDictBase:
    """The batch in which the last agent gets more at every step: sums go on from it to others."""
    paid, reward = sample.td.clone(), sample.td.get(key)
    other: Tensor = reward.reshape(*sample.rows.shape, -1).clone()
    other[..., -1] += 1
    return paid.set(key, other.reshape(reward.shape))
