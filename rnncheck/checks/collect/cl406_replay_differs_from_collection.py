"""Recurrent mode on the collected data gives other outputs than were acted on.

Checks
    Each collected batch is given to the module in recurrent mode as it is: its own start flags,
    stored states and layout. The outputs are held against the recorded ones, with float64 as the
    judge of rounding.

Why it matters
    This is the step that training takes. If it does not reproduce what was acted on, ratios are not
    1, advantages are those of another policy.

Says nothing when
    recurrent mode raises, or no recorded output is a function of the observations. Batches of a
    random policy are left out.

Fix
    See which other check failed: memory while acting (CL401), flags (CL405), the modes themselves
    (EQ201, BD301).

Example
    with set_recurrent_mode(True):
        out = policy(batch.select(*policy.in_keys))   # out["logits"] == batch["logits"]
"""

from __future__ import annotations

from collections.abc import Iterator

from tensordict import TensorDict, TensorDictBase

from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.constructed_batches import constructed, runs_in_double
from rnncheck.checks.evidence.evidence import QUICK_STEPS, Evidence
from rnncheck.checks.evidence.random_outputs import comparable_outputs, random_outputs
from rnncheck.checks.evidence.recurrent_pass import as_rows
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.recording.recording import Rows
from rnncheck.pipeline.subject.passes import IN_DOUBLE, run_recurrent
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.results.model import Severity, Stage, Where

MOST_BATCHES = 4  # without --thorough, unless they hold fewer than QUICK_STEPS


def run(evidence: Evidence) -> Judgement:
    """Every batch of the policy's own steps."""
    subject, compared = evidence.policy, 0
    worst: tuple[int, Mismatch] | None = None
    if all(rows.random for rows in evidence.recording.batches):
        raise CouldNotLook("a random policy took every recorded step")
    for number, rows in _looked_at(evidence):
        keys = recorded_outputs(evidence, subject, rows)
        found = replay(evidence, subject, rows, keys)
        compared += len(keys) * int(rows.valid.sum())
        if found and (worst is None or found.difference.relative > worst[1].difference.relative):
            worst = (number, found)
    if not compared:
        raise CouldNotLook("no recorded output is a function of the observations alone")
    findings = (_observed(*worst),) if worst else ()
    return Judgement(findings, compared, f"{compared} recorded outputs are reproduced")


def _looked_at(evidence: Evidence) -> Iterator[tuple[int, Rows]]:
    """Batches of the policy's own steps, with their numbers: the first few, more of them where they
    are short."""
    count = steps = 0
    for number, rows in enumerate(evidence.recording.batches):
        if rows.random:
            continue
        if not evidence.thorough and count >= MOST_BATCHES and steps >= QUICK_STEPS:
            return
        count, steps = count + 1, steps + int(rows.valid.sum())
        yield number, rows


def recorded_outputs(evidence: Evidence, subject: Subject, rows: Rows) -> list[Key]:
    """Recorded root outputs that are not random under exploration."""
    made = constructed(evidence, subject)
    keys = comparable_outputs(evidence, subject, made.truth)
    noisy = random_outputs(evidence, subject, explore=True)
    return [key for key in keys if key in tensor_keys(rows.data) and key not in noisy]


def replay(evidence: Evidence, subject: Subject, rows: Rows, keys: list[Key]) -> Mismatch | None:
    """The worst recorded output that recurrent mode does not reproduce."""
    batch = as_recorded(subject, rows)
    try:
        out = as_rows(run_recurrent(subject, batch), rows.data.shape)
        exact = None
        if runs_in_double(evidence, subject, subject.inputs_of(rows.data[:1])):
            exact = as_rows(run_recurrent(subject, batch, settings=IN_DOUBLE), rows.data.shape)
    except Exception as error:
        raise CouldNotLook(
            f"recurrent mode raises on the collected data ({reason_of(error)})"
        ) from error
    found = mismatches(rows.data.select(*keys), out, exact, keys, rows.valid)
    return found[0] if found else None


def as_recorded(subject: Subject, rows: Rows) -> TensorDictBase:
    """What the module reads of a collected batch, in the collector's layout."""
    inputs = subject.inputs_of(rows.data)
    td = TensorDict({key: inputs.get(key) for key in tensor_keys(inputs)}, rows.data.shape)
    answers = [key for key in tensor_keys(rows.data) if key[0] == "next"]
    written = {next_key(key) for key in subject.carry}
    for key in (*subject.flags, *subject.carry, *(k for k in answers if k not in written)):
        value = rows.data.get(key, None)
        if value is not None:
            td.set(key, value)
    return td.reshape(rows.shape)


def _observed(number: int, found: Mismatch) -> Observation:
    d = found.difference
    return Observation(
        message=(
            f"recurrent mode on the collected data gives another {dotted(found.key)} than was"
            " acted on"
        ),
        key=dotted(found.key),
        quantity=f"max abs difference of {dotted(found.key)}, recurrent against recorded",
        measured=d.worst,
        on=f"batch {number} as collected",
        bound=found.bound,
        bound_formula=found.formula,
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause=(
            "acting and the recurrent pass disagree: see the other findings for which of them is"
            " wrong"
        ),
        fix=(
            "make the data reproducible: state carried while acting, every start marked, the same"
            " cell in both modes"
        ),
        details={"elements beyond the bound": f"{d.differing} of {d.elements}"},
    )


RULE = Rule(
    code="CL406",
    name="replay-differs-from-collection",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
