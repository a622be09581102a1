"""Whether the loss leaves the first steps of every slice out."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, loss_of, run_loss
from rnncheck.checks.evidence.recurrent_pass import declared_reads
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.pipeline.keys import Key, tensor_keys

_LONGEST = 64  # steps of a slice that are tried


def burn_in(evidence: Evidence, sample: Sample) -> int:
    """How many first steps of each slice have no direct part in the loss; 0 where that cannot be
    told.

    Found by changing what the policy does not read (rewards, actions, targets) at those steps: a
    loss that leaves them out does not change in one bit.
    """
    return evidence.once("burn-in", lambda: _burn_in(evidence, sample), sample)


def _burn_in(evidence: Evidence, sample: Sample) -> int:
    try:
        loss_of(evidence)
        base = run_loss(evidence, sample, per_element=False).total
        keys = _unread(evidence, sample)
        everywhere = torch.ones_like(sample.valid)
        if not keys or _same(evidence, sample, keys, everywhere, base):
            return 0
        since = positions(sample)
        longest = min(_LONGEST, int(since.max()))
        count = 0
        while count < longest and _same(evidence, sample, keys, since <= count, base):
            count += 1
        return count
    except Unanswered:
        return 0


def warms_up(evidence: Evidence, sample: Sample) -> bool:
    """Whether the steps that the loss leaves out reach it through the memory."""
    return bool(burn_in(evidence, sample)) and reaches(evidence, sample)


def cropped(evidence: Evidence, sample: Sample) -> int:
    """How many first steps of each slice the loss does without altogether."""
    return 0 if reaches(evidence, sample) else burn_in(evidence, sample)


def reaches(evidence: Evidence, sample: Sample, *, but: int = 0) -> bool:
    """Whether what is observed at the steps that the loss leaves out, but for the last of them,
    changes it."""
    return evidence.once(
        "reach of the burn-in", lambda: _reaches(evidence, sample, but), sample, but
    )


def _reaches(evidence: Evidence, sample: Sample, but: int) -> bool:
    subject = evidence.policy
    keys = list(subject.changeable_inputs(subject.inputs_of(sample.rows)))
    left_out = positions(sample) < burn_in(evidence, sample) - but
    base = run_loss(evidence, sample, per_element=False).total
    return not _same(evidence, sample, keys, left_out, base)


def opens_with_stored(evidence: Evidence, sample: Sample) -> bool:
    """Whether the loss starts behind the steps that it leaves out from the state that is stored
    there."""
    keys = [key for key in evidence.policy.carry if key in tensor_keys(sample.rows)]
    first = positions(sample) == burn_in(evidence, sample)
    base = run_loss(evidence, sample, per_element=False).total
    return bool(keys) and not _same(evidence, sample, keys, first, base)


def positions(sample: Sample) -> Tensor:
    """``[rows, steps]``: steps since the slice began."""
    since = torch.zeros_like(sample.ids)
    for t in range(1, since.shape[1]):
        since[:, t] = torch.where(sample.marked[:, t], 0, since[:, t - 1] + 1)
    return since


def _unread(evidence: Evidence, sample: Sample) -> list[Key]:
    """Float entries that neither policy nor critic reads, at the root or of the next step."""
    pipeline = evidence.pipeline
    modules = [m for m in (pipeline.pristine_policy, pipeline.pristine_critic) if m is not None]
    read = {key for m in modules for key in declared_reads(m)}
    found = []
    for key in tensor_keys(sample.rows):
        own = key[1:] if key[0] == "next" else key
        if key[0] in ("rnncheck", "collector") or own in read:
            continue
        if sample.rows.get(key).is_floating_point():
            found.append(key)
    return found


def _same(evidence: Evidence, sample: Sample, keys: list[Key], mask: Tensor, base: Tensor) -> bool:
    after = run_loss(evidence, sample, changed_batch(sample, mask, keys), per_element=False).total
    return bool(torch.equal(after, base))
