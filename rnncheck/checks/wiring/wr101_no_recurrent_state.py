"""No module carries state: there is nothing to verify.

Checks
    Policy and critic are searched for a module that reads a key ``k`` and writes ``("next", k)``.

Why it matters
    A policy that was meant to be recurrent and is not trains like a feed-forward one. Alone, this
    finding ends the run with exit code 4.

Says nothing when
    the policy does carry state in another way that is judged elsewhere: under its root key (WR107)
    or in an attribute (EQ206). Could not look where an attribute keeps it that a start flag resets,
    or where who acts has no weights at all and the loss trains some: data of a fixed policy, from
    which another one learns that never acts.

Fix
    Use LSTMModule or GRUModule, or declare the carry in your module's ``in_keys`` and ``out_keys``.

Example
    in_keys = ["observation", "h", "is_init"]; out_keys = ["features", ("next", "h")]
"""

from __future__ import annotations

from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.hidden_state import hidden_state, remembered_by
from rnncheck.checks.evidence.loss_calls import loss_of, parameters_of
from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    Observation,
    Rule,
    Unanswered,
)
from rnncheck.checks.wiring.root_states import root_states
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Severity, Stage

NEVER_ACTS = (
    "who acts has no weights, and the policy that the loss trains was not seen to act: name it as"
    " the policy in a spec for `rnncheck verify`"
)

_KEPT = (
    "the {} answers by what it was shown before, and keeps that itself{}, where nothing can be"
    " followed: hand the state on by keys, k in in_keys and ('next', k) in out_keys"
)


def run(evidence: Evidence) -> Judgement:
    """Count the carry keys of policy and critic."""
    subjects = [s for s in (evidence.policy, _critic_of(evidence)) if s is not None]
    keys = [dotted(key) for subject in subjects for key in subject.carry]
    if keys:
        return Judgement((), len(keys), f"carry: {', '.join(keys)}")
    if evidence.pipeline.forgets:
        raise Deferred("what acts begins from zeros at every step", "CL401")
    if any(root_states(evidence, subject) for subject in subjects):
        raise Deferred("the state is written to the root", "WR107")
    if any(hidden_state(evidence, s, constructed(evidence, s)) for s in subjects):
        raise Deferred("the state lives outside the tensordict", "EQ206")
    if _learner_never_acts(evidence):
        raise CouldNotLook(NEVER_ACTS)
    for subject in subjects:
        held = remembered_by(subject, constructed(evidence, subject))
        if held is not None:
            raise CouldNotLook(_KEPT.format(subject.stage, f" ({', '.join(held)})" if held else ""))
    return Judgement((_observed(),), len(subjects))


def _learner_never_acts(evidence: Evidence) -> bool:
    """Who acts has no weights, while the loss has some: data recorded by a script of fixed rules,
    which another policy is trained on."""
    if any(True for _ in evidence.policy.module.parameters()):
        return False
    try:
        weights = parameters_of(loss_of(evidence))
    except Unanswered:
        return False
    return any(one.requires_grad for _, one in weights)


def _critic_of(evidence: Evidence) -> Subject | None:
    """The critic, or None also where it cannot run."""
    try:
        return evidence.critic
    except Unanswered:
        return None


def _observed() -> Observation:
    return Observation(
        message="no module of the policy or critic reads a key and writes it back under 'next'",
        quantity="carry keys",
        measured=0.0,
        bound=1.0,
        bound_formula="at least one",
        cause=(
            "the policy is feed-forward, or its state's in_key and out_key do not match as k and"
            " ('next', k)"
        ),
        fix=(
            "use LSTMModule or GRUModule, or name the state k in in_keys and ('next', k) in"
            " out_keys"
        ),
    )


RULE = Rule(
    code="WR101",
    name="no-recurrent-state",
    holds="a module of the policy carries state",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
