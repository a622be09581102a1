"""Calling the loss twice gives two results, or it rewrites what the caller passed in.

Checks
    The loss is called on a copy of the training batch; entries that were there before must be the
    same afterwards. Then it is called again on the same copy: the total must be the same.

Why it matters
    Some losses overwrite the batch's own states with zeros. A second epoch over the same batch, or
    a second loss, then starts from another memory.

Says nothing when
    the loss only adds entries of its own (``td_error``), or writes a priority anew. Where a second
    call gives the same, what networks and estimators write (features, values, advantages), what
    else no env gives, next states and next start flags may be written anew; observations, rewards,
    ends, actions and the states that steps start from may not.

Fix
    Pass a shallow copy: ``loss(batch.clone(False))``.

Example
    for _ in range(epochs): loss_fn(batch.clone(False))
"""

from __future__ import annotations

from tensordict import TensorDictBase

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import copied, each_sample, loss_of, run_loss
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Judgement, Observation, Rule
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.instruments.log_probs import log_prob_key
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

_ESTIMATES = ("advantage", "value_target", "state_value")
_OWN = ("td_error", "priority", "_weight")  # what losses are meant to write


def run(evidence: Evidence) -> Judgement:
    """One call, then another on the same batch."""
    loss, compared = copied(loss_of(evidence)), 0
    for number, sample in each_sample(evidence)[:1]:
        first = run_loss(evidence, sample, loss=loss, per_element=False)
        assert first.before is not None and first.after is not None
        rewritten = changed(first.before, first.after)
        second = run_loss(evidence, sample, first.after, loss=loss, per_element=False)
        size = abs(float(second.total) - float(first.total))
        found = (
            rewritten if size else [key for key in rewritten if key in to_leave(evidence, sample)]
        )
        if found:
            return Judgement((_observed(number, found, size),), len(tensor_keys(first.before)))
        compared += len(tensor_keys(first.before)) - len(rewritten)
    return Judgement((), compared, counted(compared, "entry", "are left as they were"))


def changed(before: TensorDictBase, after: TensorDictBase) -> list[Key]:
    """Entries that were there and hold something else now."""
    return [
        key
        for key in tensor_keys(before)
        if key[-1] not in _OWN
        and key in tensor_keys(after)
        and (
            before.get(key).shape != after.get(key).shape
            or bool(bits_differ(before.get(key), after.get(key)).any())
        )
    ]


def to_leave(evidence: Evidence, sample: Sample) -> set[Key]:
    """The entries of the batch that no network or estimator of the pipeline writes anew: what was
    observed, paid, done and remembered. What no env gives, a network gave, or the loss itself."""
    subjects = [one for one in (evidence.policy, evidence.stepped_critic) if one is not None]
    made: set[Key] = {(name,) for name in _ESTIMATES} | {("next", name) for name in _ESTIMATES}
    for subject in subjects:
        outputs = {*subject.writes, *map(next_key, (*subject.carry, *subject.flags))}
        made |= outputs | {next_key(key) for key in outputs if key[0] != "next"}
    log_prob = log_prob_key(evidence.pipeline.policy, evidence.pipeline.loss, sample.rows)
    states = {*evidence.policy.carry, *evidence.policy.flags}
    root = {key for key in tensor_keys(sample.td) if key[0] != "next"}
    made |= root - evidence.env.own - states
    acted = {*evidence.env.actions, *([log_prob] if log_prob is not None else [])}
    return (set(tensor_keys(sample.td)) - made) | acted


def _observed(number: int, rewritten: list[Key], size: float) -> Observation:
    names = ", ".join(map(dotted, rewritten[:4]))
    second = "a second call gives another loss" if size else "whatever reads it next gets another"
    return Observation(
        message=(f"the loss rewrites {names} of the batch that it is given: {second}"),
        key=dotted(rewritten[0]),
        quantity=(
            "difference of the losses of two calls on one batch"
            if size
            else "entries that hold something else after the call"
        ),
        measured=size or float(len(rewritten)),
        on=f"training batch {number}",
        bound_formula="the same to the bit",
        cause="a pass or a preparation inside the loss writes into the caller's tensordict",
        fix="call the loss on batch.clone(False)",
    )


RULE = Rule(
    code="LS705",
    name="batch-changed-by-loss",
    holds="the loss leaves its batch as it was",
    severity=Severity.WARNING,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
