"""A slice runs over an episode's end or over the write cursor of a wrapped buffer.

Checks
    Neighbours of a training batch that were stored side by side but are not neighbours in time must
    be parted by a true start flag: those of two episodes, and the newest and the oldest step of a
    full buffer. A second buffer of your own class, or with your own sampler, is filled over its
    capacity for that, where it takes no more than a few seconds. Where the flags are there but
    TorchRL's slice sampler itself does not see where episodes end, that is a warning.

Why it matters
    A sampler that does not know where trajectories end (a wrong ``traj_key`` or ``end_key``), or
    where its ring begins, hands out slices that begin in one episode and end in another.

Says nothing when
    the start of the next episode is marked, so that recurrent mode resets there, and no slice
    sampler says that it cuts at the ends. Nor where the loss leaves the memory out, as RP502 has
    it.

Fix
    Give the sampler the key that tells trajectories apart: ``traj_key=("collector", "traj_ids")``
    or ``end_key=("next", "done")``. A sampler of your own must not draw across the write cursor.
    Where slices of several episodes are meant, ignore the warning: ``verify: {ignore: [RP506]}``.

Example
    SliceSampler(slice_len=16, traj_key=("collector", "traj_ids"), strict_length=False)
"""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.left_out import needs_sequence
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.evidence.unmarked_joins import Joins, joins, stored_neighbours
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.pipeline.recording.buffer_order import parting_keys
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """Episode ends and write cursors inside slices."""
    needs_sequence(evidence)
    found = joins(evidence)
    known = sum(int(item.sample.known.sum()) for item in found)
    if not known:
        raise CouldNotLook(
            "no step of the training batches could be traced back to the collected data"
        )
    note = f"{known} steps traced"
    beyond = evidence.pipeline.overfilled
    if beyond is not None and not beyond.full:
        note += "; the buffer was not filled up, so that no slice could run over its write cursor"
    for item in found:
        if bool(item.over_end.any()):
            return Judgement((_over_end(item),), known, note)
        if bool(item.over_seam.any()):
            return Judgement((_over_seam(item),), known, note)
    for item in found:
        marked = unseen_ends(evidence, item.sample)
        if bool(marked.any()):
            finding = _unseen(evidence, item, marked)
            return Judgement((finding,), known, note, severity=Severity.WARNING)
    return Judgement((), known, note)


def unseen_ends(evidence: Evidence, sample: Sample) -> Tensor:
    """Marked starts ``[rows, steps]`` behind an episode's end that the slice sampler's own keys do
    not show."""
    none = torch.zeros_like(sample.known)
    parting = parting_keys(evidence.pipeline.replay)
    if parting is None:
        return none
    shown = _shown(sample, *parting)
    if shown is None:
        return none
    left = sample.ids[:, :-1].clamp_min(0)
    none[:, 1:] = ~shown[left]
    return none & stored_neighbours(sample) & ~sample.follows & sample.marked


def _shown(sample: Sample, number: Key | None, ends: tuple[Key, ...]) -> Tensor | None:
    """Collected steps behind which the sampler sees an end; None where its keys were not
    recorded."""
    if number is not None:
        value = sample.steps.column(number)
        if value is None:
            return None
        changes = (value[1:] != value[:-1]).reshape(len(value) - 1, -1).any(-1)
        return torch.cat([changes, torch.ones(1, dtype=torch.bool)])
    found = [sample.steps.column(key) for key in ends]
    flags = [flag.reshape(len(flag), -1).any(-1) for flag in found if flag is not None]
    return torch.stack(flags).any(0) if flags else None


def _over_end(item: Joins) -> Observation:
    count = int(item.over_end.sum())
    return _observed(
        item,
        item.over_end,
        message=counted(count, "slice", "run over the end of an episode without a start flag"),
        quantity="unmarked ends of episodes inside slices",
        cause=(
            "the sampler does not know where trajectories end, or the next episode's flag was lost"
        ),
        fix="give the sampler traj_key or end_key, and keep is_init",
    )


def _over_seam(item: Joins) -> Observation:
    count = int(item.over_seam.sum())
    return _observed(
        item,
        item.over_seam,
        message=(
            f"{counted(count, 'slice', 'run')} over the write cursor of the full buffer: from its"
            " newest step to its oldest"
        ),
        quantity="slices that hold the newest step and, behind it, the oldest",
        cause=(
            "the sampler takes places in the storage for time, and the buffer has begun to write"
            " anew"
        ),
        fix=(
            "leave out slices that hold the write cursor, as TorchRL's SliceSampler does, or mark"
            " the oldest step"
        ),
    )


def _unseen(evidence: Evidence, item: Joins, marked: Tensor) -> Observation:
    number, ends = parting_keys(evidence.pipeline.replay) or (None, ())
    keys = " or ".join(dotted(key) for key in ([number] if number else ends))
    return _observed(
        item,
        marked,
        message=(
            f"the ends of {counted(int(marked.sum()), 'episode')} lie inside slices: {keys} does"
            " not show them to the sampler; the next start is marked, so that the memory begins"
            " anew there"
        ),
        quantity="ends of episodes inside slices",
        cause=f"the slice sampler cuts by {keys}, and episodes end otherwise",
        fix=(
            'end_key=("next", "done") or traj_key=("collector", "traj_ids"); if slices of several'
            " episodes are meant, nothing is wrong"
        ),
    )


def _observed(
    item: Joins,
    mask: Tensor,
    *,
    message: str,
    quantity: str,
    cause: str,
    fix: str,
) -> Observation:
    count = float(mask.sum())
    return Observation(
        message=message,
        key="is_init",
        quantity=quantity,
        measured=count,
        on=f"training batch {item.number}, {tuple(item.sample.td.shape)}"
        + (", drawn after the buffer was filled over its capacity" if item.full else ""),
        where=item.where(mask),
        cause=cause,
        fix=fix,
    )


RULE = Rule(
    code="RP506",
    name="batch-crosses-episodes",
    holds="no slice runs over the end of an episode",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.REPLAY),
)
