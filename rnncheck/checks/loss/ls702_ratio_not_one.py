"""On fresh data and unchanged weights the probability ratio is not 1.

Checks
    Where the collected data holds the log-probability of the actions taken, the policy is run in
    recurrent mode on the training batch and asked for the log-probability of the same actions. With
    unchanged weights the two must agree. Where they do not, the batch's log-probabilities are held
    against the collected ones, to tell whether they were computed anew.

Why it matters
    PPO and every importance weight start from a ratio of 1. If it is not, the first update is
    already clipped, and the policy is pushed by noise: shuffled steps, a lost state, another mode.

Says nothing when
    the policy has no distribution, no log-probability was recorded, or no step could be traced
    back. Nor where the loss leaves the memory out, as RP502 has it.

Fix
    Replay whole slices with their states and marks, in the mode in which the policy is trained.

Example
    Collector(...)  ->  SliceSampler  ->  ClipPPOLoss: |log ratio| < 1e-5 in the first epoch
"""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.burn_in_by_loss import burn_in, positions
from rnncheck.checks.evidence.burn_in_by_maker import APPROXIMATED, approximated
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.left_out import needs_sequence
from rnncheck.checks.evidence.loss_calls import each_sample
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics.difference import gap
from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.instruments.log_probs import log_prob_key, log_prob_now
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

_LIMIT = 1e-3  # |log ratio|; float32 rounding of a log-probability stays below 1e-4


def run(evidence: Evidence) -> Judgement:
    """Every training batch that holds log-probabilities."""
    needs_sequence(evidence)
    compared = 0
    for number, sample in each_sample(evidence):
        key = log_prob_key(evidence.pipeline.policy, evidence.pipeline.loss, sample.rows)
        if key is None:
            continue
        if approximated(evidence, sample):
            raise NotApplicable(APPROXIMATED)
        gaps, mask = log_ratio(evidence, sample, key)
        compared += int(mask.sum())
        if bool((gaps[mask] > _LIMIT).any()):
            anew = _computed_anew(sample, key, mask)
            return Judgement((_observed(number, gaps * mask, key, anew),), compared)
    if not compared:
        raise NotApplicable("no log-probability was recorded with the actions")
    return Judgement((), compared, counted(compared, "ratio", "are 1"))


def log_ratio(evidence: Evidence, sample: Sample, key: Key) -> tuple[Tensor, Tensor]:
    """``|log ratio|`` and which steps count, both ``[rows, steps]``."""
    subject = evidence.policy
    try:
        now = log_prob_now(subject, sample.td, sample.td.get(key))
    except Exception as error:
        raise CouldNotLook(
            f"the policy gives no log-probability on the batch ({reason_of(error)})"
        ) from error
    if now is None:
        raise NotApplicable("the policy gives no distribution to ask for log-probabilities")
    recorded = sample.td.get(key)
    gaps = (now.reshape(recorded.shape) - recorded).abs().reshape(*sample.rows.shape, -1).amax(-1)
    mask = sample.valid & (positions(sample) >= burn_in(evidence, sample))
    random = [rows.random for rows in sample.steps.recording.batches]
    by_policy = torch.tensor([not random[batch] for batch, _, _ in sample.steps.places])
    return gaps.double().nan_to_num(nan=torch.inf), mask & (
        by_policy[sample.ids.clamp_min(0)] | (sample.ids < 0)
    )


def _computed_anew(sample: Sample, key: Key, mask: Tensor) -> bool:
    """The batch holds other log-probabilities than were collected with the same steps."""
    collected, held = sample.steps.column(key), sample.rows.get(key)
    traced = mask & sample.known
    if collected is None or collected.shape[1:] != held.shape[2:]:
        return False
    return bool((gap(held[traced], collected[sample.ids[traced]]) > _LIMIT).any())


_BATCH = (
    "the batch is not the sequence that was acted on: steps shuffled, state or marks lost, another"
    " mode",
    "replay slices in order, with the states and start flags that were collected, and train in"
    " recurrent mode",
)
_ANEW = (
    "the batch holds other log-probabilities than were collected with its steps",
    "keep the log-probabilities that were collected, or compute them anew under"
    " set_recurrent_mode(True) with the collected states and is_init",
)


def _observed(number: int, gaps: Tensor, key: Key, anew: bool) -> Observation:
    row, step = divmod(int(gaps.argmax()), gaps.shape[1])
    worst = float(gaps.max())
    cause, fix = _ANEW if anew else _BATCH
    return Observation(
        message=(
            "with unchanged weights the policy gives the recorded actions another probability than"
            " it had"
        ),
        key=dotted(key),
        quantity="|log ratio| of the recorded actions",
        measured=worst,
        on=f"training batch {number}",
        bound=_LIMIT,
        bound_formula="|log pi_now - log pi_recorded| with the same weights",
        where=Where((number, row), step, first_step=int((gaps > _LIMIT).any(0).nonzero()[0])),
        cause=cause,
        fix=fix,
        source=Stage.REPLAY,
        details={"steps beyond the bound": f"{int((gaps > _LIMIT).sum())} of {gaps.numel()}"},
    )


RULE = Rule(
    code="LS702",
    name="ratio-not-one",
    holds="fresh data has a probability ratio of 1",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
    replays=True,
)
