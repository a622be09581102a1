"""A carry key is absent from the env's reset: collection runs without memory.

Checks
    Every carry key of the policy is looked for in the reset of the env that the collector steps.

Why it matters
    A collector hands on what the env's specs know. Without a primer the state is dropped after
    every step, and LSTMModule starts from zero each time; only a FutureWarning tells.

Says nothing when
    the recorded outputs are those of the sequential policy all the same (a collector of your own
    that carries the state), or the policy has no carry.

Fix
    Append the primers of the policy's modules to the env, or let the collector do it.

Example
    env.append_transform(get_primers_from_module(policy))
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.trajectory_replay import acted_mismatch, compared_keys, replayed
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule, Unanswered
from rnncheck.pipeline.compat import or_by_the_collector
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Carry keys against the reset's keys."""
    keys = evidence.policy_carry
    if not keys:
        raise NotApplicable("the policy has no carry")
    missing = [key for key in keys if key not in tensor_keys(evidence.env.first)]
    if missing and acts_with_memory(evidence):
        return Judgement((), len(keys), "the collector carries the state itself")
    findings = (_observed(missing),) if missing else ()
    return Judgement(findings, len(keys), "the env's reset gives " + ", ".join(map(dotted, keys)))


def acts_with_memory(evidence: Evidence) -> bool:
    """The recorded outputs are the sequential policy's."""
    try:
        items = replayed(evidence)
        compared = any(compared_keys(evidence, i) and i.recorded.shape[1] > 1 for i in items)
        return compared and acted_mismatch(evidence) is None
    except Unanswered:
        return False


def _observed(missing: list[Key]) -> Observation:
    names = ", ".join(map(dotted, missing))
    return Observation(
        message=f"the env's reset does not give the policy's state: {names}",
        key=names,
        quantity="carry keys absent from the reset",
        measured=float(len(missing)),
        cause="the env has no state primer, or one for other keys",
        fix="append the policy's primers: env.append_transform(get_primers_from_module(policy))"
        + or_by_the_collector(),
    )


RULE = Rule(
    code="WR103",
    name="missing-state-primer",
    holds="every reset gives the policy's whole state",
    severity=Severity.ERROR,
    stage=Stage.ENV,
    run=run,
    needs=(Stage.ENV, Stage.POLICY),
)
