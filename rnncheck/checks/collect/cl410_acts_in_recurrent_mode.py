"""The policy is called in recurrent mode while it acts, and raises for want of a time dimension.

Checks
    Why a collection that raised did so: a recurrent module was called in recurrent mode on a single
    step.

Why it matters
    ``set_recurrent_mode(True)`` is for whole sequences. Left on around a rollout or a collector it
    raises with one env; with a batch of envs it takes the envs for a time axis and raises nothing
    (CL401, CL406).

Says nothing when
    the collection runs, or raises for another reason.

Fix
    Collect first, outside of ``set_recurrent_mode(True)``, and set the mode around the training
    passes only.

Example
    data = env.rollout(100, policy)
    with set_recurrent_mode(True): data = policy(data)
"""

from __future__ import annotations

import re

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.known_errors import raised_at
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.results.model import Severity, Source, Stage

NO_TIME = r"recurrent_mode=True\) requires"  # what LSTMModule and GRUModule say to a single step


def run(evidence: Evidence) -> Judgement:
    """What the collection said when it raised."""
    failure = evidence.pipeline.failures.get(Stage.COLLECT)
    if failure is None:
        return Judgement((), len(evidence.pipeline.batches), "the collection runs")
    if not re.search(NO_TIME, failure.message):
        raise CouldNotLook("the collection raises for another reason")
    source = raised_at(evidence.pipeline, Stage.COLLECT, failure.place)
    return Judgement((_observed(failure.message, source),), 1)


def _observed(message: str, source: Source) -> Observation:
    return Observation(
        message=f"the policy acts in recurrent mode: {message}",
        quantity="collections that raise",
        measured=1.0,
        cause=(
            "set_recurrent_mode(True) is on while the policy acts, or its module has"
            " default_recurrent_mode=True"
        ),
        fix=(
            "collect outside of set_recurrent_mode(True) and set the mode around the training"
            " passes only"
        ),
        source=source,
    )


RULE = Rule(
    code="CL410",
    name="acts-in-recurrent-mode",
    holds="the policy acts step by step",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
