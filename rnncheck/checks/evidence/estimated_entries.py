"""What an estimator gives for a step, beside what the training batch holds of it there."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rnncheck.checks.evidence.estimator_calls import batches, made_by, written
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.recorded_entries import (
    AGREEING,
    TELLING,
    RecordedEntry,
    levelled,
    moved_from,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import Unanswered
from rnncheck.pipeline.keys import Key, dotted, tensor_keys

_NAMES = ("advantage", "value_target")
_SAME = 1e-6  # of the largest estimate: the same number


def estimated_entries(evidence: Evidence, sample: Sample) -> Iterator[tuple[RecordedEntry, str]]:
    """Advantages and targets of the training batch, and what the estimator gives for the same
    steps, both less their mean and over their deviation; with the words for where those of the
    batch were estimated, if that is elsewhere. None where no estimator runs."""
    if _as_estimated(evidence):
        return
    named = {*_names(evidence), *map(dotted, made_by(evidence))}
    for key in tensor_keys(sample.rows):
        if dotted(key) not in named or not sample.rows.get(key).is_floating_point():
            continue
        column, has = _column(evidence, key, sample)
        known = sample.known & has[sample.ids.clamp_min(0)]
        given, recorded = sample.rows.get(key), column[sample.ids.clamp_min(0)]
        if given.shape == recorded.shape and int(known.sum()) > 1:
            entry = levelled(RecordedEntry(key, given, recorded.to(given.dtype), known))
            yield entry, moved_from([entry]) or _elsewhere(entry, given, column[has])


def _names(evidence: Evidence) -> set[str]:
    """What the estimator calls them: groups of agents have theirs under their own."""
    keys = getattr(evidence.pipeline.estimator, "tensor_keys", None)
    given = (getattr(keys, name, name) for name in _NAMES)
    return {key if isinstance(key, str) else dotted(tuple(key)) for key in given}


def _as_estimated(evidence: Evidence) -> bool:
    """Whether the loss gets what the estimator gives, or the estimator runs on what the loss
    gets."""
    pipeline, section = evidence.pipeline, evidence.pipeline.spec.advantage
    if section is None or section.on != "collect":
        return True
    return all(any(one is td for td in pipeline.estimated) for one in pipeline.samples)


def _estimates(evidence: Evidence) -> list[tuple[Sample, dict[str, Tensor]]]:
    """Each batch of the estimator, and what it gives there."""

    def made() -> list[tuple[Sample, dict[str, Tensor]]]:
        return [(one, written(evidence, one, one.td)) for one in batches(evidence)]

    return evidence.once("estimates of the batches", made)


def _column(evidence: Evidence, key: Key, sample: Sample) -> tuple[Tensor, Tensor]:
    """By number of step what the estimator gives, and for which steps it does."""
    steps = len(sample.steps.places)
    found, has = torch.zeros(steps), torch.zeros(steps, dtype=torch.bool)
    try:
        for one, made in _estimates(evidence):
            value = made.get(dotted(key))
            if value is None:
                continue
            if found.shape[1:] != value.shape[2:]:
                found = torch.zeros(steps, *value.shape[2:], dtype=value.dtype)
            found[one.ids[one.known]], has[one.ids[one.known]] = value[one.known], True
    except Unanswered:  # an estimator that raises is VL605's
        has[:] = False
    return found, has


def _elsewhere(entry: RecordedEntry, given: Tensor, estimates: Tensor) -> str:
    """A minibatch has few of the rows that its entries may come from."""
    here = given[entry.differs].double().reshape(-1, 1)
    if given[0, 0].numel() != 1 or len(here) < TELLING:
        return ""
    apart = (here - estimates.double().reshape(1, -1)).abs().amin(1)
    same = apart <= _SAME * float(estimates.double().abs().max())
    all_ = float(same.double().mean()) >= AGREEING
    several = len(here.unique()) >= TELLING
    return "in another row" if all_ and several else ""
