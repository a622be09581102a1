"""TorchRL's own ``check_env_specs`` rejects the env.

Checks
    ``torchrl.envs.utils.check_env_specs`` on the env that the collector steps.

Why it matters
    Collectors, buffers and batched envs allocate from the specs. Where the env gives something
    else, entries are dropped, broadcast or cast, the state's among them.

Says nothing when
    never: the env is always there.

Fix
    Make the spec named in the message say what the env returns.

Example
    self.observation_spec = Composite(observation=Unbounded(4, dtype=torch.float64))
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, Observation, Rule
from rnncheck.pipeline.recording.random_play import complaint
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """One call of TorchRL's checker."""
    said = complaint(evidence.probe_env)
    if said is not None:
        return Judgement((_observed(said),), 1)
    return Judgement((), 1, "check_env_specs accepts the env")


def _observed(said: str) -> Observation:
    return Observation(
        message=f"check_env_specs rejects the env: {said[:300]}",
        quantity="complaints of check_env_specs",
        measured=1.0,
        cause="the env returns other keys, shapes, dtypes or values than its specs say, or raises",
        fix="correct the spec (or the env) named in the message",
    )


RULE = Rule(
    code="WR108",
    name="env-breaks-its-specs",
    holds="the env keeps to its specs",
    severity=Severity.ERROR,
    stage=Stage.ENV,
    run=run,
    needs=(Stage.ENV,),
)
