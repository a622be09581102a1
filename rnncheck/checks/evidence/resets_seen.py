"""Whether there was ever a reset that a policy without start flags could have missed."""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import CouldNotLook
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.subject.subject import Subject

_DONE: Key = ("next", "done")


def was_never_reset(evidence: Evidence, subject: Subject) -> bool:
    """No episode was seen to end, no module reads a start flag, and the collected data has none: an
    env may go on for ever, and a memory with it."""
    rows = evidence.recording.batches if evidence.pipeline.batches else ()
    if subject.flags or not rows or any(evidence.recording.flag(one) is not None for one in rows):
        return False
    over = [one.data.get(_DONE, None) for one in rows]
    return all(one is not None and not bool(one.any()) for one in over)


def needs_a_reset(evidence: Evidence, subject: Subject) -> None:
    """Raises CouldNotLook where that is so."""
    if was_never_reset(evidence, subject):
        steps = sum(int(one.valid.sum()) for one in evidence.recording.batches)
        raise CouldNotLook(
            f"no episode ended in {steps} collected steps, and there are no start flags: what"
            " would become of the state at a reset is not known"
        )
