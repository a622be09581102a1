"""Steps taken by the random policy leave states that later steps start from.

Checks
    Where the policy takes over from a random policy in the middle of a trajectory, its first stored
    state must be the one that the policy would have had after those steps. (Zero states stored with
    the random steps are fine.) Random are the collector's ``init_random_frames`` and batches
    without the outputs that the policy leaves in others.

Why it matters
    A random action writes no state: the policy goes on in the middle of an episode from the initial
    state, or from an older one. It is a warning: one trajectory per env is concerned.

Says nothing when
    the collector takes no random steps, or the policy takes over at a reset.

Fix
    Collect random frames in whole episodes, or reset when the policy takes over.

Example
    Collector(..., init_random_frames=1000, reset_at_each_iter=True)
"""

from __future__ import annotations

import torch

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics.difference import gap
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.pipeline.recording.recording import Joint, Recording
from rnncheck.pipeline.subject.passes import StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Severity, Stage, Where

_NEAR = 1e-4  # a state that the policy would have had, up to float32 rounding


def run(evidence: Evidence) -> Judgement:
    """First states after random batches."""
    recording, compared = evidence.recording, 0
    for number, row, before in takeovers(recording):
        for key in evidence.policy.carry:
            value = recording.batches[number].data.get(key, None)
            if value is None:
                continue
            compared += 1
            size = foreign(evidence, key, (number, row), before)
            if size:
                finding = _observed(key, (number, row), size)
                return Judgement((finding,), compared)
    if not compared:
        raise NotApplicable("no trajectory passes from a random policy to the policy")
    return Judgement((), compared, f"{compared} states after random steps are clean")


def takeovers(recording: Recording) -> list[tuple[int, int, tuple[int, int, int]]]:
    """Rows of policy batches that continue a random batch."""
    return [
        (number, row, before)
        for number, rows in enumerate(recording.batches)
        for row, before in enumerate(rows.where_before)
        if before is not None
        and not rows.random
        and recording.batches[before[0]].random
        and rows.joints[row, 0] == Joint.CONTINUES
    ]


def foreign(
    evidence: Evidence, key: Key, place: tuple[int, int], before: tuple[int, int, int]
) -> float:
    """How far the state is from the one that the policy would have had after the random steps; 0 if
    it is that."""
    recording, subject = evidence.recording, evidence.policy
    state = recording.batches[place[0]].data.get(key)[place[1], 0]
    env_row = place[1] % recording.env.rows
    rows = recording.batches[before[0]]
    begins = [t for t in range(before[2] + 1) if rows.starts[before[1], t]]
    if not begins:
        return 0.0
    history = rows.data[before[1] : before[1] + 1, begins[-1] : before[2] + 1]
    fresh = {name: value[env_row : env_row + 1] for name, value in subject.fresh.items()}
    starts = torch.zeros(1, history.shape[1], dtype=torch.bool)
    starts[:, 0] = True
    true = unroll_subject(
        subject, subject.inputs_of(history), starts, StartStates(fresh=fresh)
    ).get(next_key(key))
    size = float(gap(state, true[0, -1]).max())
    return 0.0 if size <= _NEAR * max(1.0, float(true.abs().max())) else size


def _observed(key: Key, place: tuple[int, int], size: float) -> Observation:
    return Observation(
        message=(
            f"after random steps the policy goes on from a {dotted(key)} that it never had there"
        ),
        key=dotted(key),
        quantity=f"max abs difference of {dotted(key)} and the state after the same steps",
        measured=size,
        bound=_NEAR,
        bound_formula="the policy's own state after these steps",
        where=Where(place, 0, first_step=0),
        cause="a random step writes no state, so an older one stays",
        fix="let the policy take over at a reset",
    )


RULE = Rule(
    code="CL408",
    name="random-steps-poison-state",
    holds="no trajectory goes on from a random policy's state",
    severity=Severity.WARNING,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
