"""The recorded state at t+1 is not the next state of t.

Checks
    Inside every recorded trajectory the stored state at each step is held, bit for bit, against
    ``("next", key)`` of the step before it; and ``("next", key)`` against what the policy writes
    from the recorded step. Where the data leaves out next states (``compact_obs``), the state at a
    step is held against what the policy writes at the step before.

Why it matters
    The policy acts on another state than it computed: one of another env, an older one, one that a
    partial reset wiped, one rounded to a narrower dtype on its way.

Says nothing when
    the data holds no state at all (CL401, WR103), or no trajectory has two neighbouring steps.

Fix
    Let ``step_mdp`` or the collector move ``("next", key)`` to ``key``; do not touch other envs'
    rows at a reset.

Example
    td = env.step_mdp(td)
"""

from __future__ import annotations

from rnncheck.checks.evidence.comparison import Mismatch
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.state_handover import (
    NO_STATE_KEPT,
    SAMPLED,
    Break,
    joints,
    not_handed_on,
    overwritten,
)
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.keys import dotted
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

_REPLACED = (
    "the collector, a transform or a partial reset replaces the state between two steps, "
    "or time is not the last dimension of the data"
)
_HANDED_ON = (
    "move ('next', key) to key with step_mdp, for every env, and leave it alone at other envs'"
    " resets"
)


def run(evidence: Evidence) -> Judgement:
    """Neighbouring steps of every batch, then what is written from single steps."""
    breaks, count = joints(evidence)
    if not count and evidence.policy.by_absence:
        raise NotApplicable(NO_STATE_KEPT)
    if not count:
        return _by_what_is_written(evidence)
    if breaks:
        return Judgement((_observed(max(breaks, key=lambda b: b.count)),), count)
    found = overwritten(evidence)
    findings = (_overwritten(*found),) if found else ()
    return Judgement(findings, count, counted(count, "state", "are handed on unchanged"))


def _by_what_is_written(evidence: Evidence) -> Judgement:
    """Of data that leaves out next states."""
    found, count = not_handed_on(evidence)
    if not count:
        raise CouldNotLook("the data holds no state beside its next state in neighbouring steps")
    findings = (_not_handed_on(*found),) if found else ()
    return Judgement(findings, count, counted(count, "state", "are what was written before"))


def _not_handed_on(found: Mismatch, number: int) -> Observation:
    d, key = found.difference, dotted(found.key[1:])
    return Observation(
        message=f"the recorded {key} is not what the policy writes at the step before it",
        key=key,
        quantity=f"max abs difference of {key} at t+1 and what is written at t",
        measured=d.worst,
        on=f"the first {SAMPLED} steps of batch {number}",
        bound=found.bound,
        bound_formula=found.formula,
        where=Where((number, d.row), d.step + 1, d.feature, first_step=d.first_step + 1),
        cause=_REPLACED,
        fix=_HANDED_ON,
    )


def _overwritten(found: Mismatch, number: int) -> Observation:
    d = found.difference
    return Observation(
        message=(
            f"the recorded {dotted(found.key)} is not what the policy writes from the recorded step"
        ),
        key=dotted(found.key),
        quantity=f"max abs difference of {dotted(found.key)}, recorded and written again",
        measured=d.worst,
        on=f"the first {SAMPLED} steps of batch {number}",
        bound=found.bound,
        bound_formula=found.formula,
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause="the env or a transform writes the same key at every step, or rounds the state",
        fix=(
            "leave the policy's state keys to the policy: rename the env's entry, prime only at"
            " resets"
        ),
        source=Stage.ENV,
    )


def _observed(worst: Break) -> Observation:
    d = worst.difference
    return Observation(
        message=(
            f"the stored {dotted(worst.key)} is not the next state of the step before it, "
            f"at {worst.count} of {worst.of} joints"
        ),
        key=dotted(worst.key),
        quantity=(
            f"max abs difference of {dotted(worst.key)} at t+1 and next.{dotted(worst.key)} at t"
        ),
        measured=d.worst,
        on=f"{worst.of} pairs of neighbouring steps",
        bound_formula="the same to the bit",
        where=Where((worst.batch, d.row), d.step + 1, d.feature, first_step=d.first_step + 1),
        cause=_REPLACED,
        fix=_HANDED_ON,
    )


RULE = Rule(
    code="CL402",
    name="carry-broken",
    holds="every recorded state is the last step's next one",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
    replays=True,
)
