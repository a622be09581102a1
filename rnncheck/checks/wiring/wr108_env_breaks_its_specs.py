"""TorchRL's own ``check_env_specs`` rejects the env.

Checks
    ``torchrl.envs.utils.check_env_specs`` on the env that the collector steps.

Why it matters
    Collectors, buffers and batched envs allocate from the specs. Where the env gives something else, entries are
    dropped, broadcast or cast, the state's among them.

Says nothing when
    never: the env is always there.

Fix
    Make the spec named in the message say what the env returns.

Example
    self.observation_spec = Composite(observation=Unbounded(4, dtype=torch.float64))
"""

from __future__ import annotations

import logging

from torchrl._utils import logger
from torchrl.envs.utils import check_env_specs

from rnncheck.checks.evidence import Evidence, first_line
from rnncheck.checks.rule import Judgement, Rule
from rnncheck.pipeline.modes import measuring
from rnncheck.results.model import Finding, Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """One call of TorchRL's checker, its log kept quiet."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with measuring(recurrent=False, explore=True):
            check_env_specs(evidence.probe_env)
    except Exception as error:  # the checker asserts, the env may raise anything
        return Judgement((_finding(evidence, error),), 1)
    finally:
        logger.setLevel(level)
    return Judgement((), 1, "check_env_specs accepts the env")


def _finding(evidence: Evidence, error: Exception) -> Finding:
    return Finding(
        code="WR108",
        stage=Stage.ENV,
        message=f"check_env_specs rejects the env: {first_line(error)[:300]}",
        quantity="complaints of check_env_specs",
        measured=1.0,
        bound=0.0,
        bound_formula="none",
        passing_bound=1.0,
        cause="the env returns other keys, shapes, dtypes or values than its specs say, or raises",
        fix="correct the spec (or the env) named in the message",
        source=evidence.pipeline.source(Stage.ENV),
    )


RULE = Rule(
    code="WR108",
    name="env-breaks-its-specs",
    severity=Severity.ERROR,
    stage=Stage.ENV,
    run=run,
    needs=(Stage.ENV,),
)
