"""A done or a change of trajectory without a start flag, or the reverse; a junction of workers or
rows.

Checks
    The recorded start flag is compared with where trajectories begin by the env's done flags, by
    the collector's trajectory numbers, and by observations that do not continue. Every beginning
    must be marked, nothing else may be. `rnncheck run` also sees where a script plays its
    collector's env between two batches (an evaluation), and the next batch goes on from before it.

Why it matters
    In recurrent mode the flag is all that keeps two trajectories apart: an unmarked junction joins
    them, a false mark cuts one in two.

Says nothing when
    the data holds no start flag (WR102). A batch that begins in the middle of a trajectory needs no
    mark there, and where rows are joined end to end a mark at their starts is right though the
    trajectory goes on. Of data that the collector wrote into the replay buffer the stretches are
    judged, not where one is stored behind another (RP501).

Fix
    Write ``is_init`` with InitTracker on the env that the collector steps, and mark the first step
    of every row, worker or slice when you join them.

Example
    flat = data.reshape(-1); flat["is_init"][::T] = True   # rows of length T, joined
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import Deferred, Judgement, Observation, Rule
from rnncheck.pipeline.recording.recording import Joint, Recording, Rows
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

KINDS = {
    "done": ("step after a done", "have no start flag"),
    "begin": ("first step of trajectories", "have no start flag"),
    "joint": ("junction of two trajectories", "have no start flag"),
    "extra": ("step inside a trajectory", "have a start flag"),
}
CAUSES = {
    "done": "the start flag misses some resets (an env of the batch, truncations, or all)",
    "begin": "the start flag is not written at resets",
    "joint": "rows, workers or stretches were joined end to end without a mark",
    "extra": (
        "the start flag is written at steps that follow no reset (inverted, late, or another env's)"
    ),
}


@dataclass(frozen=True)
class Wrong:
    """Steps of one batch whose flag is wrong in one way."""

    kind: str
    batch: int
    mask: Tensor


def run(evidence: Evidence) -> Judgement:
    """All flags of all batches."""
    recording, wrong, compared = evidence.recording, list[Wrong](), 0
    for number, rows in enumerate(recording.batches):
        flag = recording.flag(rows)
        if flag is not None:
            compared += int(rows.valid.sum())
            wrong += _judge(number, rows, flag, inside=_rows_inside(recording, rows))
    if not compared:
        raise Deferred("the data holds no start flag", "WR102")
    findings = [
        _observed(evidence, kind, wrong) for kind in KINDS if any(w.kind == kind for w in wrong)
    ]
    if evidence.pipeline.disturbed:
        findings.append(_disturbed(evidence.pipeline.disturbed))
    return Judgement(tuple(findings), compared, counted(compared, "start flag", "are right"))


def _disturbed(place: str) -> Observation:
    return Observation(
        message=(
            f"the collector's env was played at {place} between two batches, and the next batch"
            " goes on as if it had not been"
        ),
        key="is_init",
        quantity="batches that begin with another env than they show",
        measured=1.0,
        on="the first batch behind the first update",
        bound_formula="every beginning is marked, nothing else",
        cause=(
            "an evaluation on the collector's own env leaves it elsewhere: the collector steps on"
            " from an observation and a state of before"
        ),
        fix="evaluate on an env of its own, or call collector.reset() behind it",
        source=Stage.COLLECT,
    )


def _rows_inside(recording: Recording, rows: Rows) -> list[int]:
    """Rows that go on from inside a row of an earlier batch: several were joined, so that their
    starts are marked."""
    places = [(row, place) for row, place in enumerate(rows.where_before) if place is not None]
    ends = [recording.batches[place[0]].valid[place[1]].nonzero().max() for _, place in places]
    return [row for (row, place), end in zip(places, ends, strict=True) if place[2] < int(end)]


def _judge(number: int, rows: Rows, flag: Tensor, inside: Sequence[int] = ()) -> Iterator[Wrong]:
    """What is wrong with the flags of one batch; those of the rows ``inside`` may be marked."""
    masks = {
        "done": (rows.joints == Joint.AFTER_DONE) & ~flag,
        "begin": (rows.joints == Joint.BEGINS) & ~flag,
        "joint": (rows.joints == Joint.CUT) & ~flag,
        "extra": (rows.joints == Joint.CONTINUES) & flag,
    }
    masks["joint"][:, 0] = False
    masks["extra"][list(inside), 0] = False
    for kind, mask in masks.items():
        if bool((mask & rows.valid).any()):
            yield Wrong(kind, number, mask & rows.valid)


def _observed(evidence: Evidence, kind: str, wrong: list[Wrong]) -> Observation:
    mine = [item for item in wrong if item.kind == kind]
    count = sum(int(item.mask.sum()) for item in mine)
    row, step = mine[0].mask.nonzero()[0].tolist()
    return Observation(
        message=counted(count, *KINDS[kind]),
        key="is_init",
        quantity="start flags that are wrong",
        measured=float(count),
        on=counted(len(evidence.recording.batches), "batch"),
        bound_formula="every beginning is marked, nothing else",
        where=Where((mine[0].batch, row), step, first_step=step),
        cause=CAUSES[kind],
        fix=(
            "write is_init with InitTracker on the env that is stepped; mark the first step of what"
            " you join"
        ),
        source=Stage.COLLECT if kind == "joint" else Stage.ENV,
    )


RULE = Rule(
    code="CL405",
    name="boundary-unmarked",
    holds="every boundary of the recorded data is marked",
    severity=Severity.ERROR,
    stage=Stage.COLLECT,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
