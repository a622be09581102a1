"""Whether a policy is shown the action of the step before."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed, tokens
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.pipeline.keys import Key

AGREEING = 0.9  # share of steps: where an episode begins another number may stand
WIDEST = 256  # numbers of an observation that are compared: no picture shows an action


def shows_previous(evidence: Evidence, sample: Sample, key: Key) -> bool:
    """Whether numbers that are observed at a step are those of action ``key`` a step before."""
    follows = sample.follows[:, 1:] & sample.valid[:, 1:]
    actions = _columns(sample.rows.get(key))[:, :-1]
    for name in [*observed(evidence, sample), *tokens(evidence, sample)]:
        seen = _columns(sample.rows.get(name))[:, 1:]
        if name[0] != "next" and seen.shape[-1] <= WIDEST and _holds(seen, actions, follows):
            return True
    return False


def _holds(seen: Tensor, actions: Tensor, follows: Tensor) -> bool:
    """A number of the observation is one of the action's, where that changes."""
    same = (seen.unsqueeze(-1) == actions.unsqueeze(-2))[follows]
    changes = actions[follows].std(0, unbiased=False) > 0 if len(same) else torch.zeros(1)
    return bool(((same.double().mean(0) >= AGREEING) & changes.bool()).any())


def _columns(value: Tensor) -> Tensor:
    """``[rows, steps, numbers]``; an index beside the one-hot form of itself."""
    wide = value.reshape(*value.shape[:2], -1)
    if value.is_floating_point() or wide.shape[-1] > 1 or int(wide.min()) < 0:
        return wide.double()
    return torch.cat([wide, torch.nn.functional.one_hot(wide.long())[:, :, 0]], -1).double()
