"""Steps that a time limit cut, and that are trained on with what the next episode begins with, in
the place of what was observed next."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import observed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.shown_next import shown_next
from rnncheck.checks.evidence.training_batches import Sample, Steps
from rnncheck.checks.value.cleared_ends import changed_entries
from rnncheck.checks.value.estimates import ended
from rnncheck.numerics.difference import bits_differ, features
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.recording.recording import Joint
from rnncheck.results.model import Stage, Where

_DONE: Key = ("next", "done")


def begun_next(evidence: Evidence) -> tuple[Stage, Where, int] | None:
    """The first batch of the estimator or the loss with most of them so, where they read it: which
    of the two, the first such step, and how many there are."""
    found = changed_entries(evidence, _begun, _put_back)
    if found is None:
        return None
    stage, number, _, _, begun = found
    row, step = begun.nonzero()[0].tolist()
    return stage, Where((number, row), step, first_step=step), int(begun.sum())


def _begun(evidence: Evidence, sample: Sample) -> list[tuple[Key, Tensor]]:
    """Next observations, with the steps ``[rows, steps]`` at which they are what another episode
    begins with, and were not collected as that."""
    cut = ended(sample, "done") & ~ended(sample, "terminated") & sample.known & sample.valid
    done = sample.steps.column(_DONE)  # what a sampler cuts is marked as an end too
    if done is not None:
        cut &= done[sample.ids.clamp_min(0)].reshape(*cut.shape, -1).any(-1)
    after = _starts_behind(sample.steps)[sample.ids.clamp_min(0)]
    cut &= (after >= 0) & (shown_next(evidence, sample) == sample.ids)
    found = []
    keys = [key for key in observed(evidence, sample) if key[0] == "next"]
    for key in keys if bool(cut.any()) else ():
        told, begins = sample.steps.column(key), sample.steps.column(key[1:])
        here = sample.rows.get(key)
        if told is None or begins is None:
            continue
        if here.shape[2:] != told.shape[1:] or told.shape != begins.shape:
            continue
        own, other = told[sample.ids.clamp_min(0)], begins[after.clamp_min(0)]
        begun = cut & ~_differs(here, other) & _differs(here, own)
        if 2 * int(begun.sum()) > int(cut.sum()):
            found.append((key, begun))
    return found


def _differs(one: Tensor, other: Tensor) -> Tensor:
    """``[rows, steps]``: any of their numbers, ``[rows, steps, ...]``."""
    return features(bits_differ(one, other.to(one.dtype))).any(-1)


def _starts_behind(steps: Steps) -> Tensor:
    """The number of the step that begins an episode behind each, in its row, -1 where none does."""
    found = torch.full((len(steps.places),), -1)
    for number, (batch, row, step) in enumerate(steps.places):
        if step and steps.recording.batches[batch].joints[row, step] == Joint.AFTER_DONE:
            found[number - 1] = number
    return found


def _put_back(sample: Sample, key: Key, begun: Tensor) -> TensorDictBase:
    rows, told = sample.rows.clone(), sample.steps.column(key)
    assert told is not None
    value = rows.get(key)
    wide = begun.reshape(*begun.shape, *[1] * (value.ndim - 2))
    own = told[sample.ids.clamp_min(0)].to(value.dtype)
    return rows.set(key, torch.where(wide, own, value)).reshape(sample.td.shape)
