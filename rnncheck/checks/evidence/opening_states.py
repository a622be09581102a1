"""The states that the slices of a training batch open with, and those that nothing reads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rnncheck.checks.evidence.evidence import Evidence, recorded_error
from rnncheck.checks.evidence.training_batches import Sample, samples, stale
from rnncheck.checks.evidence.trajectory_replay import reads_at_start
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.keys import LATER_KEY, Key
from rnncheck.pipeline.recording.recording import Joint
from rnncheck.pipeline.subject.modes import measuring
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.pipeline.subject.training_pass import TwoPasses

_SEVERAL = 4  # chosen: rows of a number of steps end with their episodes seldom


def opens_alone(subject: Subject) -> bool:
    """Whether the recurrent pass is given no state, so that whatever it is given begins there."""
    return isinstance(subject.module, TwoPasses) and subject.module.from_starts


def wrong_openings(
    evidence: Evidence, sample: Sample, key: Key, starts: Tensor, stored: Tensor, recorded: Tensor
) -> Tensor:
    """``starts`` ``[rows, steps]`` with another stored state than was collected there, where the
    module reads it."""
    wrong = stale(sample, starts, stored, recorded, coarse=recorded_error(evidence))
    return wrong & ~_unread(evidence, sample, key, wrong, recorded)


def _unread(
    evidence: Evidence, sample: Sample, key: Key, wrong: Tensor, recorded: Tensor
) -> Tensor:
    """Flagged steps at which a module of the user's own starts anew, whatever is stored there."""
    found, stored = torch.zeros_like(wrong), sample.rows.get(key)
    if sample.flag is None or stored.shape[2:] != recorded.shape[1:]:
        return found
    for row, step in (wrong & sample.flag).nonzero().tolist():
        start = sample.rows[row : row + 1, step : step + 1]
        collected = recorded[sample.ids[row, step]].to(stored.dtype)
        found[row, step] = not reads_at_start(evidence, start, key, collected)
    return found


def one_trajectory_each(sample: Sample) -> bool:
    """Whether every row is one trajectory from its start on, and none other that was collected."""
    begins = sample.trajectory_start() & sample.known
    return bool(begins[:, 0].all()) and not bool(begins[:, 1:].any())


def begins_with_trajectories(evidence: Evidence) -> bool:
    """Whether every row begins with its trajectory, where it was collected and where it is trained
    on: no state is needed there. Where a later batch was seen to go on with one, they do not. How
    the steps were collected says nothing where whole trajectories are trained on."""
    if any(one.get(LATER_KEY, None) is None for one in evidence.pipeline.joins):
        return False
    if _are_whole(samples(evidence)):
        return True
    begins = torch.tensor([int(Joint.AFTER_DONE), int(Joint.BEGINS)])
    rows = (one.joints[:, 0][one.valid[:, 0]] for one in evidence.recording.batches)
    if not all(bool(torch.isin(one, begins).all()) for one in rows):
        return False
    starts = ((one.marked & one.valid, one.trajectory_start()) for one in samples(evidence))
    return all(bool((first | ~marked).all()) for marked, first in starts)


def is_of_acting_alone(evidence: Evidence, sample: Sample, key: Key) -> bool:
    """Whether the state is that of a module without weights to train, which cannot run on the
    batch: so it does not run in the loss, as a rule that labels what was acted, or an opponent."""
    modules = [one.module for one in evidence.policy.carriers if key in one.keys]
    trained = any(p.requires_grad for one in modules for p in one.parameters())
    return bool(modules) and not trained and not any(_runs(one, sample) for one in modules)


def _runs(module: nn.Module, sample: Sample) -> bool:
    try:
        with measuring(recurrent=True):
            copy_of(module, "the policy")(sample.rows[:1].clone())
    except Exception:  # the user's module may raise anything
        return False
    return True


def _are_whole(made: list[Sample]) -> bool:
    """Whether the rows that could be traced, several of them, are whole trajectories, and no other
    row begins inside of one: a step may have another goal by now."""
    count = 0
    for one in made:
        starts, valid = one.trajectory_start(), one.valid
        if bool(starts[:, 1:].any()) or not bool((starts | ~one.known)[:, 0].all()):
            return False
        rows = ((one.known == valid).all(1) & valid.any(1)).nonzero().flatten().tolist()
        for row in rows:
            last = one.ids[row][valid[row]][-1]
            if int(one.steps.successor[last]) >= 0 or int(last) + 1 == len(one.steps.places):
                return False
        count += len(rows)
    return count >= _SEVERAL
