"""``is_init`` or a carry key is gone or overwritten after replay.

Checks
    The start flags and carry keys of the collected data are looked for in the training batches; a
    start flag that was true when it was collected must still be true (inside a row). Where rows of
    a script begin with episodes, none begins inside, and all flags are gone, a later batch tells.

Why it matters
    Without the flag recurrent mode does not reset, without the state it starts every slice from
    zero.

Says nothing when
    the loss leaves the first steps of each slice out (burn-in): then a missing state is a choice.
    Nor where every collected row and every row that is trained on begins with its trajectory;
    where no step that is trained on was traced, it cannot look. Nor of the state of a module that
    has no weights to train and cannot run on the batch: the loss does not run it (a teacher's). Nor
    of a loss in which no memory runs, beside one that trains it (a discriminator's).

Fix
    Keep the keys in every select, exclude and transform between collection and loss.

Example
    data.select("observation", "action", "is_init", "h", "next", ...)
"""

from __future__ import annotations

from rnncheck.checks.evidence.burn_in_by_loss import warms_up
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.left_out import needs_sequence
from rnncheck.checks.evidence.opening_states import (
    begins_with_trajectories,
    is_of_acting_alone,
    one_trajectory_each,
)
from rnncheck.checks.evidence.training_batches import Sample, samples
from rnncheck.checks.replay.start_flags import lost_start
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """Flags, then states."""
    subject, compared = evidence.policy, 0
    read = set(subject.reads)
    for number, sample in enumerate(samples(evidence)):
        for key in (*subject.flags, *subject.carry):
            recorded = sample.steps.column(key)
            if recorded is None or (key in subject.flags and key not in read):
                continue
            compared += 1
            if key not in tensor_keys(sample.rows):
                if key in subject.carry and _is_not_needed(evidence, sample):
                    continue
                if is_of_acting_alone(evidence, sample, key):
                    continue
                if key in subject.flags and one_trajectory_each(sample):
                    continue
                if not bool(sample.known.any()):
                    raise CouldNotLook(UNTRACED)
                needs_sequence(evidence)
                return Judgement((_lost(key, number),), compared)
        where = lost_start(sample, number)
        if where is not None:
            return Judgement((_overwritten(where, number),), compared)
    flags = [one.get("flagged", None) for one in evidence.pipeline.openings]
    later = [one for one in flags if one is not None]
    if later and not any(bool(one.any()) for one in later):
        return Judgement((_overwritten_later(sum(map(len, later))),), compared)
    return Judgement((), compared, counted(compared, "key", "are still there"))


UNTRACED = (
    "no step of the training batches could be traced back to the collected data: whether its rows"
    " begin with their trajectories, and need no state, is not known"
)


def _is_not_needed(evidence: Evidence, sample: Sample) -> bool:
    return warms_up(evidence, sample) or begins_with_trajectories(evidence)


def _lost(key: Key, number: int) -> Observation:
    return Observation(
        message=f"{dotted(key)} was collected but is not in the training batch",
        key=dotted(key),
        quantity="keys lost on the way",
        measured=1.0,
        on=f"training batch {number}",
        cause="a select, an exclude, a transform or the storage drops it",
        fix=f"keep {dotted(key)} between collection and loss",
    )


def _overwritten(where: Where, number: int) -> Observation:
    return Observation(
        message=(
            "start flags that were true when they were collected are false in the training batch"
        ),
        key="is_init",
        quantity="start flags overwritten",
        measured=1.0,
        on=f"training batch {number}",
        where=where,
        cause="a transform or the batch's making writes the flag anew",
        fix="combine new marks with the collected ones: is_init | slice_start",
    )


def _overwritten_later(count: int) -> Observation:
    return Observation(
        message=(
            f"{counted(count, 'start flag')} inside of rows, behind the first update,"
            f" {'was' if count == 1 else 'were'} true when collected and false when trained on"
        ),
        key="is_init",
        quantity="start flags overwritten",
        measured=float(count),
        on="rows of a later batch",
        cause="what stands between the collector and the loss writes the flag anew",
        fix="keep the collected flags, or combine new marks with them: is_init | slice_start",
    )


RULE = Rule(
    code="RP503",
    name="keys-lost",
    holds="flags and states survive the replay",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.REPLAY),
)
