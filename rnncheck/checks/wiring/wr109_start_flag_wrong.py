"""``is_init`` is not true at exactly the first step after every reset and done, for every env of a
batch.

Checks
    The env is stepped with random actions, with automatic resets. The flag must be true at every
    reset and after every done, and false elsewhere, in every env of the batch.

Why it matters
    Sequential mode zeroes the state where the flag is true, recurrent mode cuts there. A flag that
    is late, inverted, missing after truncations or true for one env alone resets the wrong
    memories.

Says nothing when
    the env writes no start flag (WR102).

Fix
    Use TorchRL's InitTracker as it is, on the env that the collector steps.

Example
    env.append_transform(InitTracker())
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.recording.random_play import FlagErrors, watch_flags
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """Every start flag that the env writes and that somebody reads."""
    keys = [key for key in evidence.policy.flags if evidence.env.first.get(key, None) is not None]
    if not keys:
        raise NotApplicable("the env writes no start flag")
    findings: list[Observation] = []
    compared, ends = 0, 0
    for key in keys:
        errors = watch_flags(evidence.probe_env, key, evidence.env)
        compared, ends = compared + errors.compared, ends + errors.ends
        findings += [_observed(dotted(key), errors)] if errors.wrong else []
    note = (
        f"{counted(compared, 'flag', 'are')} right, {counted(ends, 'end')} of episodes among them"
    )
    return Judgement(tuple(findings), compared, note)


def _observed(key: str, errors: FlagErrors) -> Observation:
    return Observation(
        message=f"{key} is wrong at {errors.wrong} of {errors.compared} steps: {errors.example}",
        key=key,
        quantity="start flags that are wrong",
        measured=float(errors.wrong),
        on=f"{errors.compared} steps with {errors.ends} ends of episodes, random actions",
        bound_formula="true after every reset and done, false elsewhere",
        where=Where((errors.row,), errors.step, first_step=errors.step),
        cause="the flag is written by something else than InitTracker, or changed after it",
        fix="append InitTracker() to the env and leave its entry alone",
    )


RULE = Rule(
    code="WR109",
    name="start-flag-wrong",
    holds="the start flag is true at first steps and nowhere else",
    severity=Severity.ERROR,
    stage=Stage.ENV,
    run=run,
    needs=(Stage.ENV, Stage.POLICY),
)
