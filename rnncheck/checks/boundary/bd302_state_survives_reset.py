"""Acting step by step, what happened before a reset changes what comes after it.

Checks
    Episode heads are played one after the other through one copy of the module in sequential mode.
    At a reset the state becomes what the env's reset gives, and the start flag is true. The inputs
    before the resets are changed: the outputs after them must be the same to the last bit.

Why it matters
    A state that survives a reset makes the policy act on another episode's memory, also in
    evaluation. State that lives in an attribute of the module is the usual way in.

Says nothing when
    the output cannot be repeated (EQ206) or a change inside a segment changes nothing in that
    segment either. Where neither the env nor the recorded data carry the state (WR103), each step
    starts fresh here as it does there.

Fix
    Keep the state in the tensordict, let the env's primer reset it, and start from the initial
    state where ``is_init`` is true.

Example
    td["next", "h"] = cell(x, torch.where(td["is_init"], 0.0, td["h"]))   # never self.h = ...
"""

from __future__ import annotations

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.experiment import Experiment, alternating
from rnncheck.checks.evidence.observations import change_observed
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule, Unanswered
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.passes import RunSettings, StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Severity, Stage

_CAUSE = (
    "state outlives the reset: the env does not reset it, or it lives in an attribute of the module"
)
_FIX = (
    "start from the initial state where is_init is true, and keep no state outside the tensordict"
)


def run(evidence: Evidence) -> Judgement:
    """Play heads in sequence, with changed pasts."""
    findings: list[Observation] = []
    watched = 0
    for subject in evidence.subjects:
        made = constructed(evidence, subject)
        finding = _judge(evidence, subject, made)
        watched += int(made.starts.numel())
        findings += [finding] if finding else []
    return Judgement(tuple(findings), watched, f"{watched} steps stayed the same to the bit")


def _judge(evidence: Evidence, subject: Subject, made: Constructed) -> Observation | None:
    """The finding of one subject, if its state survives."""
    states = StartStates(kept=carried_without_env(evidence, subject))
    experiment = Experiment(
        evidence,
        subject,
        made,
        lambda inputs, dtype: unroll_subject(
            subject, inputs, made.starts, states, settings=RunSettings(dtype=dtype)
        ),
    )
    alive = False
    for mask, others in alternating(made):
        after = experiment.perturb(mask)
        alive = alive or bool(experiment.changed(after, mask))
        leaks = experiment.leaks(after, mask, others)
        if leaks:
            return change_observed(
                subject,
                made,
                leaks[0],
                message="sequential mode: what happened before a reset changes the steps after it",
                cause=_CAUSE,
                fix=_FIX,
            )
    if not alive:
        raise CouldNotLook(f"no change of the inputs changes the {subject.stage}'s outputs")
    return None


def carried_without_env(evidence: Evidence, subject: Subject) -> frozenset[Key]:
    """Carry keys that the recorded data carries on although the env's reset does not give them."""
    unprimed = set(subject.carry) - subject.primed
    if not unprimed or subject.stage is not Stage.POLICY:
        return frozenset()
    try:
        batches = evidence.recording.batches
    except Unanswered:
        return frozenset()
    return frozenset(k for k in unprimed if all(b.data.get(k, None) is not None for b in batches))


RULE = Rule(
    code="BD302",
    name="state-survives-reset",
    holds="nothing survives a reset while acting",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
