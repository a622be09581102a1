"""The stored state at a segment's start is not the initial state.

Checks
    At every recorded start (after a done, or a true start flag at a new trajectory) the stored
    state is held against what the env's reset gives. A stale state counts only where it changes an
    output of that step, in sequential or in recurrent mode.

Why it matters
    Recurrent mode starts a segment from the state stored at its start, so an old episode's memory
    enters training even where acting ignores it.

Says nothing when
    the data holds no state, the primer is random (WR105), the module masks the stale state itself
    in both modes, or a loop that puts its state back by itself was not seen to begin an episode
    behind another: its first state says nothing of those.

Fix
    Append the state primer to the env that the collector steps, so that every reset writes the
    initial state.

Example
    env.append_transform(policy[0].make_tensordict_primer())
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.state_handover import NO_STATE_KEPT
from rnncheck.checks.evidence.trajectory_replay import Unreset, unreset
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.keys import dotted
from rnncheck.results.model import Severity, Stage, Where

_NEVER = (
    "no episode began behind another while it was watched: whether the loop puts its state back"
    " then was not seen, and more updates (`--updates`) may show it"
)


def run(evidence: Evidence) -> Judgement:
    """All carry keys at all recorded starts."""
    items = unreset(evidence)
    starts = sum(item.starts for item in items)
    if not starts and evidence.policy.by_absence:
        raise NotApplicable(NO_STATE_KEPT)
    if not starts:
        said = "the data holds no state at any recorded start"
        raise CouldNotLook(_NEVER if evidence.pipeline.never_reset else said)
    stale = [item for item in items if item.stale]
    findings = [_observed(max(stale, key=lambda i: i.worst))] if stale else []
    if not stale and evidence.pipeline.never_reset:
        raise CouldNotLook(_NEVER)
    return Judgement(tuple(findings), starts, f"{starts} stored states are the initial state")


def _observed(item: Unreset) -> Observation:
    return Observation(
        message=(
            f"the stored {item.name} is not the initial state at {item.stale} of {item.starts}"
            " starts"
        ),
        key=dotted(item.key),
        quantity=f"max abs difference of {dotted(item.key)} and the initial state",
        measured=item.worst,
        on=f"{item.starts} recorded starts",
        bound_formula="the same to the bit",
        where=Where((item.batch, item.row), item.step),
        cause="the env's reset does not write this state, or the collector keeps the old one",
        fix="append the state primer to the env that the collector steps",
        source=Stage.ENV,
    )


RULE = Rule(
    code="CL403",
    name="state-not-reset",
    holds="every trajectory was recorded from the initial state",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
