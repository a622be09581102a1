"""What is said of a pass over sequences that raised."""

from __future__ import annotations

from rnncheck.checks.rule import CouldNotLook
from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.pipeline.subject.training_pass import TwoPasses


def unrun(subject: Subject, error: Exception, on: str = "") -> CouldNotLook:
    """That recurrent mode raised ``on`` something, or the pass of the script's own that stands for
    it: its lines may be made for batches of one form."""
    reason = reason_of(error)
    if isinstance(subject.module, TwoPasses):
        return CouldNotLook(f"the training pass cannot be run on other steps ({reason})")
    return CouldNotLook(f"recurrent mode raises on {on or f'the {subject.stage}'} ({reason})")
