"""The state at a slice's start is not the one that the trajectory had there.

Checks
    At every step of the training batches where recurrent mode takes its start from the stored state (marked steps,
    and first steps of rows), the stored state is held against the one that was collected for that very step.

Why it matters
    A slice that starts from zero, from another step's or another slice's state is replayed with a memory that the
    trajectory never had there.

Says nothing when
    the batch holds no state (RP503), or the loss leaves the first steps of each slice out (burn-in).

Fix
    Store the state with every step and let the sampler carry it along; do not shift or zero it.

Example
    batch["h"][..., 0, :] is the collected h of the slice's first step
"""

from __future__ import annotations

from torch import Tensor

from rnncheck.checks.burnin import burn_in
from rnncheck.checks.evidence import Evidence
from rnncheck.checks.rule import Judgement, Rule, Vacuous
from rnncheck.checks.training import Sample, same_values, samples
from rnncheck.numerics.difference import gap
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.results.model import Finding, Severity, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """Stored states at the starts of slices."""
    compared = 0
    for number, sample in enumerate(samples(evidence)):
        starts = sample.marked & sample.known
        for key in evidence.policy.carry:
            recorded, stored = sample.steps.column(key), sample.rows.get(key, None)
            if recorded is None or stored is None:
                continue
            compared += int(starts.sum())
            wrong = stale(sample, starts, stored, recorded)
            if bool(wrong.any()) and not burn_in(evidence, sample):
                finding = _finding(evidence, key, number, sample, wrong, stored, recorded)
                return Judgement((finding,), compared)
    if not compared:
        raise Vacuous("no training batch holds a state at a step that could be traced back")
    return Judgement((), compared, f"{compared} stored states are the collected ones")


def stale(sample: Sample, starts: Tensor, stored: Tensor, recorded: Tensor) -> Tensor:
    """Starts ``[rows, steps]`` whose stored state is another one than was collected there."""
    if stored.shape[2:] != recorded.shape[1:]:
        return starts
    wrong = starts.clone()
    here = starts.nonzero()
    values = stored[here[:, 0], here[:, 1]]
    wrong[here[:, 0], here[:, 1]] = ~same_values(values, recorded[sample.ids[starts]])
    return wrong


def _finding(
    evidence: Evidence,
    key: Key,
    number: int,
    sample: Sample,
    wrong: Tensor,
    stored: Tensor,
    recorded: Tensor,
) -> Finding:
    row, step = wrong.nonzero()[0].tolist()
    fits = stored.shape[2:] == recorded.shape[1:]
    size = float(gap(stored[row, step], recorded[sample.ids[row, step]]).max()) if fits else 1.0
    return Finding(
        code="RP504",
        stage=Stage.REPLAY,
        message=f"{int(wrong.sum())} slices start from another {dotted(key)} than the trajectory had there",
        key=dotted(key),
        quantity=f"max abs difference of {dotted(key)}, replayed against collected",
        measured=size,
        on=f"training batch {number}",
        bound=0.0,
        bound_formula="the same to the bit, in the stored dtype",
        passing_bound=size,
        where=Where((number, row), step, first_step=step),
        cause="the state was zeroed, shifted in time, or taken from another slice on its way through replay",
        fix="store every step's state and sample it with its step; or leave the first steps out of the loss (burn-in)",
        source=evidence.pipeline.training_source(),
    )


RULE = Rule(
    code="RP504",
    name="stored-state-wrong",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.REPLAY),
)
