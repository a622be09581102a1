"""The policy reads ``is_init``, the env never writes it.

Checks
    Start flags that the policy or critic declares as inputs are looked for in the reset of the env
    that the collector steps.

Why it matters
    Without the flag nothing tells where a trajectory begins: LSTMModule raises, an own module that
    has a default runs on and never resets.

Says nothing when
    no module reads a start flag.

Fix
    Append InitTracker to the env, or let the collector do it
    (``auto_register_policy_transforms=True``).

Example
    env = TransformedEnv(base_env, InitTracker())
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.keys import dotted, tensor_keys
from rnncheck.pipeline.subject.introspect import start_flags
from rnncheck.pipeline.subject.subject import all_reads
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Start flags read, against the reset's keys."""
    modules = [
        m for m in (evidence.pipeline.pristine_policy, evidence.pipeline.pristine_critic) if m
    ]
    wanted = {k for m in modules for k in start_flags(m, evidence.env) if k in all_reads(m)}
    if not wanted:
        raise NotApplicable("no module reads a start flag")
    missing = sorted(wanted - set(tensor_keys(evidence.env.first)))
    findings = tuple(_observed(dotted(key)) for key in missing)
    return Judgement(findings, len(wanted), "the env writes " + ", ".join(map(dotted, wanted)))


def _observed(key: str) -> Observation:
    return Observation(
        message=f"the policy reads {key!r}, but the env's reset does not write it",
        key=key,
        quantity="start flags that the env does not write",
        measured=1.0,
        cause="the env has no InitTracker",
        fix="append InitTracker() to the env's transforms",
    )


RULE = Rule(
    code="WR102",
    name="missing-init-tracker",
    holds="the env writes every start flag that is read",
    severity=Severity.ERROR,
    stage=Stage.ENV,
    run=run,
    needs=(Stage.ENV, Stage.POLICY),
)
