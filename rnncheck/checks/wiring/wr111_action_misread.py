"""The policy's action has not as many entries as the env reads, such as an index where it reads
one-hot actions.

Checks
    The shape of the actions that were collected, or else of the policy's first one, against the
    env's action spec.

Why it matters
    TorchRL reads a one-hot action by the place of its largest entry. An index has one entry, so
    that the env takes action 0 every time, while the data says what the policy chose: it learns
    from transitions that never happened.

Says nothing when
    the action has as many entries as the spec, or the spec has no fixed shape.

Fix
    Make the env with ``categorical_action_encoding=True``, or let the policy give one-hot actions.

Example
    # for a policy that ends in logits.argmax(-1)
    GymEnv("CartPole-v1", categorical_action_encoding=True)
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Deferred, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.subject.env_facts import ActionForm, action_forms
from rnncheck.pipeline.subject.introspect import probe_step
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Every action against its spec."""
    td = next(iter(evidence.pipeline.batches), None)
    if td is None:
        td, error = probe_step(evidence.pipeline.pristine_policy, evidence.env)
        if td is None:
            raise Deferred(f"the policy cannot run one step ({error})", "WR110")
    forms = action_forms(evidence.probe_env, td)
    if not forms:
        raise NotApplicable("no action with a fixed shape is given")
    findings = tuple(_observed(form) for form in forms if not form.fits)
    return Judgement(findings, len(forms), "the env reads what the policy gives")


def _observed(form: ActionForm) -> Observation:
    given, wanted = list(form.given), list(form.wanted)
    return Observation(
        message=f"{dotted(form.key)} has the shape {given}, and the env reads {wanted}"
        + (", one-hot: it takes action 0 whatever the policy chose" if form.one_hot else ""),
        key=dotted(form.key),
        quantity="entries of an action",
        measured=float(form.given.numel()),
        bound=float(form.wanted.numel()),
        bound_formula="as many as the env's action spec has",
        cause=(
            "the policy ends in an index (argmax), and the env was made for one-hot actions,"
            " TorchRL's default"
            if form.one_hot
            else "the policy's head was made for another action space"
        ),
        fix=(
            "make the env with categorical_action_encoding=True, or let the policy give one-hot"
            " actions"
            if form.one_hot
            else f"let the policy give actions of {wanted}"
        ),
        source=Stage.ENV if form.one_hot else Stage.POLICY,
    )


RULE = Rule(
    code="WR111",
    name="action-misread",
    holds="the action has the entries that the env reads",
    severity=Severity.ERROR,
    stage=Stage.ENV,
    run=run,
    needs=(Stage.ENV, Stage.POLICY),
)
