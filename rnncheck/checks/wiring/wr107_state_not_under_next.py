"""A module writes its new state to the root key.

Checks
    Modules that write a key to the root which they, or modules before them, read as a state, where
    no module hands it on under ``next`` and neither the env itself nor an earlier module produces
    it.

Why it matters
    The step that is stored then holds the state after it instead of before it, and what comes back
    depends on what the collector keeps: a primer overwrites it, a replayed slice starts one step
    late.

Says nothing when
    a module rewrites an observation in place, or masks a state that another module carries.

Fix
    Write the new state to ``("next", key)``.

Example
    out_keys=["features", ("next", "h")]     # not ["features", "h"]
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, Observation, Rule
from rnncheck.checks.wiring.root_states import rewritten
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.pipeline.subject.subject import innermost
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Every innermost module of policy and critic."""
    pipeline, compared = evidence.pipeline, 0
    findings: list[Observation] = []
    for stage, module in (
        (Stage.POLICY, pipeline.pristine_policy),
        (Stage.CRITIC, pipeline.pristine_critic),
    ):
        if module is None:
            continue
        compared += len(innermost(module))
        for path, key in rewritten(module, evidence)[:1]:
            findings.append(_observed(stage, path, key))
    return Judgement(tuple(findings), compared, f"{counted(compared, 'module')} looked at")


def _observed(stage: Stage, path: str, key: Key) -> Observation:
    return Observation(
        stage=stage,
        message=(
            f"module {path} writes the new state {dotted(key)!r} to the root key that it is read"
            " from"
        ),
        key=dotted(key),
        quantity="states written to the root",
        measured=1.0,
        cause=f"out_keys names {dotted(key)!r} instead of ('next', {dotted(key)!r})",
        fix=f"write the new state to ('next', {dotted(key)!r})",
    )


RULE = Rule(
    code="WR107",
    name="state-not-under-next",
    holds="every new state is written under `next`",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
