"""Recurrent mode lets a change in one segment reach another.

Checks
    Episode heads are laid end to end, every start marked. The inputs of every other segment are
    changed, with all shapes kept, and the recurrent pass is run again: outputs and states of the
    segments that were not touched must be the same to the last bit.

Why it matters
    Training batches hold several segments in a row. If the state runs over a reset, the policy is
    trained on a history that it never has when it acts, and rewards still look plausible.

Says nothing when
    the module has no recurrent mode, its output cannot be repeated (EQ206), or a change inside a
    segment changes nothing in that segment either. Nor where no episode was seen to end, no module
    reads a start flag and the data has none.

Fix
    At every step with ``is_init`` true, replace the running state by the state stored at that step
    (or by the initial state): every key, every layer, every row. TorchRL's LSTMModule and GRUModule
    do so.

Example
    h = torch.where(is_init[..., t, :], stored_h[..., t, :], h)   # before the cell, at every t
"""

from __future__ import annotations

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.experiment import alternating, recurrent_experiment
from rnncheck.checks.evidence.observations import change_observed
from rnncheck.checks.evidence.resets_seen import needs_a_reset
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Severity, Stage

_CAUSE = "the recurrent pass keeps (part of) the running state at a step whose start flag is true"
_FIX = "in recurrent mode, reset every carry key, layer and row wherever is_init is true"


def run(evidence: Evidence) -> Judgement:
    """Perturb the even, then the odd segments of policy and critic."""
    findings: list[Observation] = []
    watched = 0
    for subject in evidence.subjects:
        found, steps = _judge(evidence, subject)
        findings += found
        watched += steps
    if not findings:
        evidence.needs_critic()
    return Judgement(tuple(findings), watched, f"{watched} steps stayed the same to the bit")


def _judge(evidence: Evidence, subject: Subject) -> tuple[list[Observation], int]:
    """Findings of one subject and how many steps were watched."""
    needs_a_reset(evidence, subject)
    made = constructed(evidence, subject)
    experiment = recurrent_experiment(evidence, subject, made)
    alive = False
    for mask, others in alternating(made):
        after = experiment.perturb(mask)
        alive = alive or bool(experiment.changed(after, mask))
        leaks = experiment.leaks(after, mask, others)
        if leaks:
            share = f"{int(leaks[0].changed.sum())} of {int(others.sum())} untouched steps"
            message = f"recurrent mode: a change in one segment changes {share} of others"
            build = change_observed(
                subject,
                made,
                leaks[0],
                message=message,
                cause=_CAUSE,
                fix=_FIX,
            )
            return [build], made.starts.numel()
    if not alive:
        raise CouldNotLook(f"no change of the inputs changes the {subject.stage}'s outputs")
    return [], made.starts.numel()


RULE = Rule(
    code="BD301",
    name="state-crosses-reset",
    holds="no segment reaches another in recurrent mode",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
