"""Whether there was ever a reset that a policy without start flags could have missed."""

from __future__ import annotations

import torch

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import CouldNotLook
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.recording.recording import Rows
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.pipeline.subject.subject import Subject

_DONE: Key = ("next", "done")


def was_never_reset(evidence: Evidence, subject: Subject) -> bool:
    """No episode was seen to end, and no start flag is read, neither by a module, where the data
    has one, nor by the pass over a loop's steps: an env may go on for ever, and a memory with
    it."""
    rows = evidence.recording.batches if evidence.pipeline.batches else ()
    over = [one.data.get(_DONE, None) for one in rows]
    if not rows or any(one is None or bool(one.any()) for one in over):
        return False
    if evidence.pipeline.never_reset:
        return not evidence.once("flags of the pass", lambda: _reads_flags(subject, rows[0]))
    return not subject.flags and all(evidence.recording.flag(one) is None for one in rows)


def _reads_flags(subject: Subject, rows: Rows) -> bool:
    """Whether recurrent mode gives something else where an inner step is marked."""
    inputs = subject.inputs_of(rows.data)
    plain = inputs.clone().update({key: rows.data.get(key) for key in subject.carry})
    marked = plain.clone()
    for key in subject.flags:
        flag = torch.zeros_like(rows.data.get(key))
        plain.set(key, flag)
        marked.set(key, flag.clone())
        marked.get(key)[:, flag.shape[1] // 2] = True
    try:
        one, other = (run_recurrent(subject, td) for td in (plain, marked))
    except Exception:  # the user's module may raise anything: other checks tell of it
        return True
    return any(bool(bits_differ(one.get(k), other.get(k)).any()) for k in tensor_keys(one))


def needs_a_reset(evidence: Evidence, subject: Subject) -> None:
    """Raises CouldNotLook where that is so."""
    if was_never_reset(evidence, subject):
        steps = sum(int(one.valid.sum()) for one in evidence.recording.batches)
        raise CouldNotLook(
            f"no episode ended in {steps} collected steps, and no start flag is read: what would"
            " become of the state at a reset is not known"
        )
