"""Whether there was ever a reset that a policy without start flags could have missed: behind the
end of an episode, and inside of the rows that it is trained on."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.rule import CouldNotLook, NotApplicable
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


def gets_whole_episodes(evidence: Evidence, subject: Subject) -> bool:
    """Every row that was collected, and every one that is trained on, is one episode from its first
    step to its end, and recurrent mode reads no start flag: it is given no second one."""
    rows = evidence.recording.batches if evidence.pipeline.batches else ()
    if not rows or not all(map(_is_whole, rows)):
        return False
    if any(map(_ends_inside, evidence.pipeline.samples)):
        return False
    return not evidence.once(
        "flags of recurrent mode", lambda: _reads_flags(subject, rows[0]), subject.stage
    )


def _ends_inside(batch: TensorDictBase) -> bool:
    """Whether an episode may end ahead of the last step of a row: what holds no ends does not
    tell."""
    over = batch.get(_DONE, None)
    if over is None or batch.batch_dims < 1:
        return True
    return bool(over.reshape(*batch.batch_size, -1)[..., :-1, :].any())


def _is_whole(rows: Rows) -> bool:
    over: Tensor = rows.done & rows.valid
    last = rows.valid.sum(1, keepdim=True) - 1
    ended = over.gather(1, last.clamp_min(0)).all() and int(over.sum()) == len(over)
    return bool(ended and rows.starts[:, 0].all()) and not bool(rows.starts[:, 1:].any())


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
    """Raises CouldNotLook where there was none, and NotApplicable where there is none inside."""
    if gets_whole_episodes(evidence, subject):
        raise NotApplicable(
            "every row is one whole episode, and recurrent mode, which reads no start flag, is"
            " given no second one"
        )
    if was_never_reset(evidence, subject):
        steps = sum(int(one.valid.sum()) for one in evidence.recording.batches)
        raise CouldNotLook(
            f"no episode ended in {steps} collected steps, and no start flag is read: what would"
            " become of the state at a reset is not known"
        )
