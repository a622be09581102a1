"""The recorded outputs are those of a memoryless policy, not of the sequential one.

Checks
    Every recorded trajectory is replayed alone, step by step, from a fresh state. Where the
    recorded outputs are not those of the replay they are held against the same steps run each from
    a fresh state. Of a function that is given no state of its call before it is seen whether its
    recurrent layers begin from zeros at every step, and run over sequences where it is trained.

Why it matters
    The policy acts without memory while it is trained with one. Nothing raises: a missing state
    primer makes TorchRL's modules start from zero at every step.

Says nothing when
    no recorded output is a function of the observations, or memory makes no difference to any of
    them. Steps of a random policy are left out.

Fix
    Let the env carry the state: append the policy's state primers, or build the collector with
    ``auto_register_policy_transforms=True``.

Example
    env.append_transform(get_primers_from_module(policy))
"""

from __future__ import annotations

from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.moved_statistics import unless_counted
from rnncheck.checks.evidence.trajectory_replay import (
    Replayed,
    acted_mismatch,
    compared_keys,
    memoryless_replay,
    place,
    replayed,
)
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.compat import or_by_the_collector
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.recording.recording import Recording
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """The worst mismatch, if a memoryless policy explains it."""
    if evidence.pipeline.forgets:
        return _forgotten(evidence.pipeline.forgets, evidence.recording)
    if not evidence.policy.carry:
        raise NotApplicable("no module of the policy carries state")
    if all(rows.random for rows in evidence.recording.batches):
        raise CouldNotLook("a random policy took every recorded step")
    items = replayed(evidence)
    compared = sum(len(compared_keys(evidence, i)) * i.recorded.shape[1] for i in items)
    found = acted_mismatch(evidence)
    if found is None:
        if compared and all(_memory_is_idle(evidence, item) for item in items):
            raise CouldNotLook("memory makes no difference to any recorded output")
        return Judgement((), compared, f"{compared} recorded outputs are the sequential policy's")
    item, worst = found
    if mismatches(
        item.recorded, memoryless_replay(evidence, item), None, compared_keys(evidence, item)
    ):
        said = "the recorded outputs are not memoryless (but see CL406)"
        return unless_counted(Judgement((), compared, said), evidence)
    return Judgement((_observed(evidence, item, worst),), compared)


def _forgotten(who: str, recording: Recording) -> Judgement:
    """Of a function that acts, in which every step began from zeros."""
    steps = sum(rows.valid.numel() for rows in recording.batches if not rows.random)
    found = Observation(
        message=(
            f"{who} acts without memory: its recurrent layers begin from zeros at each of"
            f" {steps} steps, and training runs them over sequences"
        ),
        measured=float(steps),
        quantity="steps that began from zeros",
        cause=f"no state that a call of {who} made comes back to its next one",
        fix=(
            "keep the state that the layer returns, hand it to the next call, and put it back where"
            " an episode begins: `action, state = act(obs, state)`"
        ),
        source=Stage.COLLECT,
    )
    return Judgement((found,), steps)


def _memory_is_idle(evidence: Evidence, item: Replayed) -> bool:
    keys = compared_keys(evidence, item)
    return not item.unlike(memoryless_replay(evidence, item), keys)


def _observed(evidence: Evidence, item: Replayed, worst: Mismatch) -> Observation:
    d = worst.difference
    missing = sorted(dotted(k) for k in set(evidence.policy.carry) - evidence.policy.primed)
    return Observation(
        message=(
            f"the policy acted without memory: recorded {dotted(worst.key)} is the memoryless"
            " policy's"
        ),
        key=dotted(worst.key),
        quantity=(
            f"max abs difference of {dotted(worst.key)}, recorded against the sequential replay"
        ),
        measured=d.worst,
        on=f"a recorded trajectory of {item.recorded.shape[1]} steps",
        bound=worst.bound,
        bound_formula=worst.formula,
        where=place(item, d.step, d.feature, d.first_step),
        cause=(
            f"no state reaches the policy: {', '.join(missing)} is not given by the env"
            if missing
            else "the state that the policy writes never comes back to it"
        ),
        fix=(
            "append the policy's state primers to the env: "
            "env.append_transform(get_primers_from_module(policy))"
        )
        + or_by_the_collector(),
        source=Stage.ENV if missing else Stage.COLLECT,
    )


RULE = Rule(
    code="CL401",
    name="acted-without-memory",
    holds="the policy acted with memory",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
