"""The first step of a batch does not continue the last one's.

Checks
    Where a batch goes on with a trajectory of the batch before it (same trajectory number or same
    row, and the observation continues), its first stored state is held against the last next state
    there. `rnncheck run` asks it of the first batch behind the first update as well.

Why it matters
    A collector that starts every batch from a zero state while the episode goes on acts with a
    memory that is cut every ``frames_per_batch`` steps.

Says nothing when
    there is one batch only, every batch begins with a reset, or the data holds no state.

Fix
    Keep the last tensordict between batches (``step_mdp`` of the last step), or reset the env as
    well.

Example
    Collector(..., reset_at_each_iter=False)   # keeps env and state together
"""

from __future__ import annotations

from dataclasses import replace

from tensordict import TensorDictBase

from rnncheck.checks.evidence.comparison import Mismatch
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.state_handover import next_states, not_carried_over
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.pipeline.recording.recording import Joint, Recording
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

_Place = tuple[int, int]  # batch, row


def run(evidence: Evidence) -> Judgement:
    """First states of all later batches."""
    recording, compared = evidence.recording, 0
    broken: list[tuple[Key, _Place, float]] = []
    for number, row, before in continuing(recording):
        for key in evidence.policy.carry:
            here = recording.batches[number].data.get(key, None)
            after = next_states(recording.batches[before[0]], key)
            if here is None or after is None:
                continue
            compared += 1
            first, last = here[row, 0], after[before[1], before[2]]
            if bool(bits_differ(first, last.to(first.dtype)).any()):
                broken.append((key, (number, row), float(gap(first, last).max())))
    for join in evidence.pipeline.joins:
        later = _later(evidence, join)
        compared += later[0]
        if later[1] is not None and not broken:
            return Judgement((later[1],), compared)
    if not compared:
        found, compared = not_carried_over(evidence, continuing(recording))
        if found is not None:
            return Judgement((_not_written_before(*found, compared),), compared)
    if not compared:
        if sum(not rows.random for rows in recording.batches) > 1:
            raise NotApplicable("no batch goes on with a trajectory of the batch before it")
        raise CouldNotLook("the policy acted in one collected batch alone")
    findings = (_observed(broken, compared),) if broken else ()
    return Judgement(findings, compared, counted(compared, "state", "go on between batches"))


def _not_written_before(found: Mismatch, number: int, compared: int) -> Observation:
    """Of data that leaves out next states: not what the policy writes at the last step."""
    d, key = found.difference, found.key[1:]
    seen = _observed([(key, (number, d.row), d.worst)], compared)
    quantity = f"max abs difference of {dotted(key)} at the first step and what is written before"
    return replace(seen, quantity=quantity, bound=found.bound, bound_formula=found.formula)


def _later(evidence: Evidence, join: TensorDictBase) -> tuple[int, Observation | None]:
    """How many states go on behind the first update, and those that do not."""
    compared = 0
    for key in evidence.policy.carry:
        given, last = (join.get((name, *key), None) for name in ("given", "collected"))
        if given is None or last is None:
            continue
        compared += len(given)
        other = bits_differ(given, last.to(given.dtype)).reshape(len(given), -1).any(1)
        if bool(other.any()):
            size = float(gap(given, last).max())
            found = _observed([(key, (0, 0), size)] * int(other.sum()), len(given))
            return compared, replace(found, where=None, on="the steps behind the first update")
    return compared, None


def continuing(recording: Recording) -> list[tuple[int, int, tuple[int, int, int]]]:
    """Batches and rows whose first step follows a step of the batch before, both of the policy's
    own."""
    found = []
    for number, rows in enumerate(recording.batches):
        for row, before in enumerate(rows.where_before):
            if before is None or rows.random or recording.batches[before[0]].random:
                continue
            if rows.joints[row, 0] == Joint.CONTINUES:
                found.append((number, row, before))
    return found


def _observed(broken: list[tuple[Key, _Place, float]], compared: int) -> Observation:
    key, place, size = max(broken, key=lambda item: item[2])
    return Observation(
        message=(
            f"{dotted(key)} at the first step of a batch is not the state that the batch before"
            f" ended in, at {len(broken)} of {compared} joints"
        ),
        key=dotted(key),
        quantity=(
            f"max abs difference of {dotted(key)} at the first step and next.{dotted(key)}"
            " before it"
        ),
        measured=size,
        on=f"{counted(compared, 'joint')} of batches",
        bound_formula="the same to the bit",
        where=Where(place, 0, first_step=0),
        cause="the collector drops the state at the end of a batch but not the episode",
        fix="start the next batch from step_mdp of the last step, or reset the env as well",
    )


RULE = Rule(
    code="CL404",
    name="carry-broken-between-batches",
    holds="every batch goes on where the last one ended",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
