"""A slice runs over an episode's end or over the write cursor of a wrapped buffer.

Checks
    Neighbours of a training batch that were stored side by side but belong to two episodes must be parted by a true
    start flag.

Why it matters
    A sampler that does not know where trajectories end (a wrong ``traj_key`` or ``end_key``) hands out slices that
    begin in one episode and end in another.

Says nothing when
    the start of the next episode is marked: then recurrent mode resets there.

Fix
    Give the sampler the key that tells trajectories apart: ``traj_key=("collector", "traj_ids")`` or
    ``end_key=("next", "done")``.

Example
    SliceSampler(slice_len=16, traj_key=("collector", "traj_ids"), strict_length=False)
"""

from __future__ import annotations

from rnncheck.checks.evidence import Evidence
from rnncheck.checks.joins import Joins, joins
from rnncheck.checks.rule import Judgement, Rule, Vacuous
from rnncheck.results.model import Finding, Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Episode ends inside slices."""
    found = joins(evidence)
    known = sum(int(item.sample.known.sum()) for item in found)
    if not known:
        raise Vacuous("no step of the training batches could be traced back to the collected data")
    bad = [item for item in found if bool(item.over_end.any())]
    return Judgement((_finding(evidence, bad[0]),) if bad else (), known, f"{known} steps traced")


def _finding(evidence: Evidence, item: Joins) -> Finding:
    count = int(item.over_end.sum())
    return Finding(
        code="RP506",
        stage=Stage.REPLAY,
        message=f"{count} slices run over the end of an episode without a start flag",
        key="is_init",
        quantity="unmarked ends of episodes inside slices",
        measured=float(count),
        on=f"training batch {item.number}, {tuple(item.sample.td.shape)}",
        bound=0.0,
        bound_formula="none",
        passing_bound=float(count),
        where=item.where(item.over_end),
        cause="the sampler does not know where trajectories end, or the next episode's flag was lost",
        fix="give the sampler traj_key or end_key, and keep is_init",
        source=evidence.pipeline.training_source(),
    )


RULE = Rule(
    code="RP506",
    name="batch-crosses-episodes",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.REPLAY),
)
