"""The state at a segment's end differs from the unroll's.

Checks
    After a recurrent pass over episode heads, ``("next", key)`` at the last step of every segment
    is held against the isolated replay's state there. Other steps are not judged: TorchRL writes
    zeros to them. A module that writes the row's last state to every step gets a warning, if that
    state is right: whether a target is made of the others is asked of the targets (VL604).

Why it matters
    The end state is where the next batch, a bootstrap value or a target continues. A wrong one (0
    for every trajectory shorter than the longest, as in torchrl up to 0.12) starts them from a
    memory that never was.

Says nothing when
    recurrent mode writes no state, or the module has no recurrent mode, or its outputs differ
    already (EQ201).

Fix
    Write each segment's own last state at its last step, not the padded one and not the row's.

Example
    td["next", "h"] = torch.stack(states, -2)   # every step's new state
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.equivalence.mode_comparison import beginnings, disagreement
from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.observations import mismatch_observed
from rnncheck.checks.evidence.random_outputs import random_outputs
from rnncheck.checks.evidence.recurrent_pass import (
    needs_recurrence,
    recurrent_outputs,
    row_states,
)
from rnncheck.checks.rule import Deferred, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.compat import installed, loses_end_states
from rnncheck.pipeline.keys import dotted, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.stock import is_stock
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage


def run(evidence: Evidence) -> Judgement:
    """End states of all segments, for policy and critic."""
    findings: list[Observation] = []
    compared, writes, severity = 0, False, Severity.WARNING
    for subject in evidence.subjects:
        needs_recurrence(evidence, subject)
        for made, _ in beginnings(evidence, subject):
            if disagreement(evidence, subject, made)[0] is not None:
                raise Deferred("the outputs differ already", "EQ201")
            out = recurrent_outputs(evidence, subject, made)
            writes = writes or not set(map(next_key, subject.carry)).isdisjoint(tensor_keys(out))
            found, count = _wrong(evidence, subject, made, made.ends)
            compared += count
            if found is None:
                continue
            findings.append(_observed(evidence, subject, made, found))
            if (
                found.key not in row_states(evidence, subject)
                or _wrong(evidence, subject, made, _row_ends(made))[0]
            ):
                severity = Severity.ERROR
            break
    if not writes:
        raise NotApplicable("recurrent mode writes no state: there is none that could be wrong")
    note = counted(compared, "end state", "agree") if compared else "the states draw random numbers"
    return Judgement(tuple(findings), compared, note, severity if findings else None)


def _wrong(
    evidence: Evidence, subject: Subject, made: Constructed, ends: Tensor
) -> tuple[Mismatch | None, int]:
    """The worst end state, and how many were compared."""
    out = recurrent_outputs(evidence, subject, made)
    written = [next_key(k) for k in subject.carry if next_key(k) in tensor_keys(out)]
    keys = [key for key in written if key not in random_outputs(evidence, subject)]
    found = mismatches(out, made.truth, made.oracle, keys, ends)
    rows = row_states(evidence, subject)
    found.sort(key=lambda one: one.key in rows)  # what has a state for each end is told first
    return (found[0] if found else None), len(keys) * int(ends.sum())


def _row_ends(made: Constructed) -> Tensor:
    last = torch.zeros_like(made.starts)
    last[:, -1] = True
    return last


def _observed(
    evidence: Evidence, subject: Subject, made: Constructed, found: Mismatch
) -> Observation:
    whole = found.key in row_states(evidence, subject)
    if whole:
        cause = "the row's last state is written to each of its steps"
        fix = "write every step's own state, if anything is to start from the ends inside a row"
    else:
        cause, fix = _blame(subject, found, recurrent_outputs(evidence, subject, made))
    return mismatch_observed(
        subject,
        made,
        found,
        message=f"recurrent mode: {dotted(found.key)} at a segment's end is not the state there",
        cause=cause,
        fix=fix,
    )


def _blame(subject: Subject, worst: Mismatch, out: TensorDictBase) -> tuple[str, str]:
    """Cause and fix: TorchRL's own where its module leaves 0 there, else the user's."""
    at = worst.difference
    lost = not out.get(worst.key)[at.row, at.step].any()
    writers = [one for one in subject.carriers if worst.key in map(next_key, one.keys)]
    if lost and loses_end_states() and all(is_stock(one.module) for one in writers):
        return (
            (
                f"torchrl {installed().public} leaves 0 at the end of a trajectory shorter than the"
                " longest (pytorch/rl issue 3711)"
            ),
            "install torchrl 0.13 or newer",
        )
    return (
        "the end state is taken from the padding, from another step or from the row's end",
        "write every segment's last state at its own last step",
    )


RULE = Rule(
    code="EQ202",
    name="end-state-wrong",
    holds="recurrent mode ends in the states of the unroll",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
