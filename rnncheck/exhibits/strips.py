"""Batches as rows of steps: what belongs together, what is marked, where a state is read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import segments_of
from rnncheck.checks.evidence.burn_in_by_loss import burn_in, positions
from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.estimator_calls import batches
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample, samples
from rnncheck.checks.rule import CouldNotLook, Unanswered
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.recording.recording import Joint
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.results.exhibits import MOST_ROWS, MOST_STEPS, BatchStrip, Marked, StripRow
from rnncheck.results.model import Finding, Stage, Where

CONSTRUCTED = ("BD", "EQ", "PR")  # families that lay heads of episodes end to end
COLLECTED = ("WR", "CL")
ESTIMATED = ("VL",)


@dataclass(frozen=True)
class Laid:
    """A batch, all ``[rows, steps]``; ``numbers`` are the true stretches, -1 where not known."""

    of: str
    numbers: Tensor
    starts: Tensor
    begins: Tensor
    ends: Tensor
    valid: Tensor
    burned: Tensor
    stored: Tensor


def strip_of(evidence: Evidence, finding: Finding | None, *, whole: bool) -> BatchStrip:
    """The batch that a finding is about with its step marked; without one a training batch, or
    what was collected. With ``whole`` the loss is asked for its burn-in."""
    code = "" if finding is None else finding.code
    where = (finding.where if finding is not None else None) or Where()
    number, row = (0, *where.batch)[-2:] if where.batch else (0, None)
    laid = _laid(evidence, code[:2], finding, number, whole=whole)
    marked = None if row is None else faulty_step(where, code, rows=laid.valid.shape[0])
    at = None if row is None or marked is None else (row, marked)
    if finding is not None and code[:2] in CONSTRUCTED and not _is_on(finding, laid):
        at = None
    return _cut(laid, at, code)


def _is_on(finding: Finding, laid: Laid) -> bool:
    """Whether the finding is about this very batch of heads: others are cut or laid out anew."""
    rows, steps = laid.valid.shape
    return finding.on.startswith(f"{rows} x {steps} steps")


def faulty_step(where: Where, code: str, *, rows: int) -> int | None:
    """The first faulty step, where it is told of this row: a finding tells it of all rows, and of a
    collected trajectory from its own beginning. Else the worst one."""
    if code[:2] in COLLECTED or where.first_step is None or rows > 1:
        return where.step
    return where.first_step


def _laid(
    evidence: Evidence, family: str, finding: Finding | None, number: int, *, whole: bool
) -> Laid:
    if family in CONSTRUCTED:
        return _of_heads(evidence, finding)
    if family in COLLECTED:
        return _of_collected(evidence, number)
    if family in ESTIMATED:
        return _of_sample(evidence, batches(evidence), number, "batch of the estimator", False)
    try:
        found = samples(evidence)
    except Unanswered:
        return _of_collected(evidence, number)
    return _of_sample(evidence, found, number, "training batch", whole)


def _of_sample(
    evidence: Evidence, found: list[Sample], number: int, name: str, whole: bool
) -> Laid:
    if number >= len(found):
        raise CouldNotLook("the batch is not kept")
    sample = found[number]
    known = sample.known
    numbers = sample.segments if bool(known.any()) else segments_of(sample)
    numbers = torch.where(known | ~known.any(), numbers, -1)
    burned = torch.zeros_like(sample.valid)
    if whole and (count := burn_in(evidence, sample)):
        burned = positions(sample) < count
    flag = torch.zeros_like(sample.valid) if sample.flag is None else sample.flag
    return Laid(
        of=f"{name} {number}, {tuple(sample.td.shape)}",
        numbers=numbers,
        starts=flag,
        begins=sample.trajectory_start(),
        ends=_ends(evidence, sample.rows),
        valid=sample.valid,
        burned=burned,
        stored=sample.marked & sample.valid & _stored(evidence.policy, sample.rows),
    )


def _of_collected(evidence: Evidence, number: int) -> Laid:
    recording = evidence.recording
    if number >= len(recording.batches):
        raise CouldNotLook("the batch is not kept")
    rows = recording.batches[number]
    flag = recording.flag(rows)
    starts = torch.zeros_like(rows.valid) if flag is None else flag
    return Laid(
        of=f"collected batch {number}, {tuple(rows.shape)}",
        numbers=(rows.joints != Joint.CONTINUES).long().cumsum(1),
        starts=starts,
        begins=rows.starts,
        ends=rows.done,
        valid=rows.valid,
        burned=torch.zeros_like(rows.valid),
        stored=starts & rows.valid & _stored(evidence.policy, rows.data),
    )


def _of_heads(evidence: Evidence, finding: Finding | None) -> Laid:
    of_critic = finding is not None and finding.stage is Stage.CRITIC
    subject = evidence.critic if of_critic else evidence.policy
    if subject is None:
        raise CouldNotLook("the spec has no critic")
    made = constructed(evidence, subject)
    everywhere = torch.ones_like(made.starts)
    ends = torch.zeros_like(made.starts)
    ends[:, :-1] = made.starts[:, 1:]
    ends[:, -1] = True
    batch = made.batch(subject)
    return Laid(
        of=f"first steps of episodes end to end, {tuple(made.starts.shape)}",
        numbers=made.segments,
        starts=made.starts,
        begins=made.starts,
        ends=ends,
        valid=everywhere,
        burned=~everywhere,
        stored=made.starts & _stored(subject, batch.reshape(made.starts.shape)),
    )


def _ends(evidence: Evidence, rows: TensorDictBase) -> Tensor:
    found = torch.zeros(rows.shape, dtype=torch.bool)
    for key in evidence.env.done:
        value = rows.get(next_key(key), None)
        if value is not None and value.numel() % found.numel() == 0:
            found |= value.reshape(*rows.shape, -1).any(-1)
    return found


def _stored(subject: Subject, rows: TensorDictBase) -> Tensor:
    """``[rows, steps]``: a state is stored beside the step that is not zero."""
    found = torch.zeros(rows.shape, dtype=torch.bool)
    for key in subject.carry:
        if key in tensor_keys(rows):
            found |= (rows.get(key) != 0).reshape(*rows.shape, -1).any(-1)
    return found


def _cut(laid: Laid, at: tuple[int, int] | None, code: str) -> BatchStrip:
    """As many lines around the marked step as are shown."""
    rows, steps = laid.valid.shape
    pieces = [(row, first) for row in range(rows) for first in range(0, steps, MOST_STEPS)]
    here = _piece(pieces, at)
    begin = max(0, min(here - MOST_ROWS // 2, len(pieces) - MOST_ROWS))
    shown = pieces[begin : begin + MOST_ROWS]
    left = f"{len(shown)} of {len(pieces)} lines" if len(shown) < len(pieces) else ""
    marks: tuple[Marked, ...] = ()
    if at is not None and pieces[here] in shown:
        marks = (Marked(here - begin, at[1] - pieces[here][1], code),)
    lines = tuple(_line(laid, row, first, wide=steps > MOST_STEPS) for row, first in shown)
    return BatchStrip(laid.of, lines, marks, left, (code,) if code else ())


def _piece(pieces: list[tuple[int, int]], at: tuple[int, int] | None) -> int:
    if at is None:
        return 0
    wanted = (at[0], at[1] // MOST_STEPS * MOST_STEPS)
    if wanted not in pieces:
        raise CouldNotLook("the step lies outside of the batch")
    return pieces.index(wanted)


def _line(laid: Laid, row: int, first: int, *, wide: bool) -> StripRow:
    here = (row, slice(first, first + MOST_STEPS))

    def at(mask: Tensor) -> tuple[int, ...]:
        return tuple(mask[here].nonzero().flatten().tolist())

    return StripRow(
        label=f"row {row}, from step {first}" if wide else f"row {row}",
        first=first,
        segments=tuple(laid.numbers[here].tolist()),
        starts=at(laid.starts),
        begins=at(laid.begins),
        ends=at(laid.ends),
        padding=at(~laid.valid),
        burn_in=at(laid.burned),
        stored=at(laid.stored),
    )
