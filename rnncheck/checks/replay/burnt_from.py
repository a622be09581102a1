"""States that a burn-in in a script's own lines begins with: those of another step than its first
one, to the bit."""

from __future__ import annotations

import torch
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample, make_sample, same_values
from rnncheck.checks.rule import Observation
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.printable import counted
from rnncheck.results.model import Stage

_LEAST = 2  # rows: one may hold a state that two steps have had


def burns_in_from_another(evidence: Evidence) -> Observation | None:
    """A burn-in that most of its rows, or several, begin with a state that was collected, at some
    other step alone. Zeros, an older state and one that was made anew are its own choice."""
    for number, td in enumerate(evidence.pipeline.burn_ins):
        sample = make_sample(evidence, td)
        for key in evidence.policy.carry:
            recorded = sample.steps.column(key)
            if recorded is None or key not in tensor_keys(sample.rows):
                continue
            wrong = _of_another(sample, sample.rows.get(key)[:, 0], recorded)
            if int(wrong.sum()) >= _LEAST:
                return _observed(key, number, wrong)
    return None


def _of_another(sample: Sample, given: Tensor, recorded: Tensor) -> Tensor:
    """Which rows ``[rows]`` begin with the state of another step, and of no two."""
    found = torch.zeros(len(given), dtype=torch.bool)
    if given.shape[1:] != recorded.shape[1:]:
        return found
    for row in sample.known[:, 0].nonzero().flatten().tolist():
        held = given[row : row + 1]
        places = same_values(held.expand_as(recorded), recorded).nonzero().flatten().tolist()
        found[row] = len(places) == 1 and places[0] != int(sample.ids[row, 0])
    return found


def _observed(key: Key, number: int, wrong: Tensor) -> Observation:
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"a burn-in of {counted(int(wrong.sum()), 'row')} begins with the {dotted(key)} of"
            " another step than their first one"
        ),
        key=dotted(key),
        quantity="rows that burn in from another step's state",
        measured=float(wrong.sum()),
        on=f"burn-in {number}",
        bound_formula="none",
        cause="the state is taken from another place of the memory than the steps are",
        fix="give the burn-in the state that was stored with the first of its steps",
    )
