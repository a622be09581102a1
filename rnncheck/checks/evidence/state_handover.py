"""How the recorded state is handed from step to step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDict
from torch import Tensor

from rnncheck.checks.evidence.comparison import Mismatch, mismatches
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.random_outputs import random_outputs
from rnncheck.numerics.difference import Difference, bits_differ, features, gap, locate
from rnncheck.pipeline.keys import Key
from rnncheck.pipeline.recording.recording import Joint, Rows, StepPlace
from rnncheck.pipeline.subject.passes import StartStates, unroll_subject
from rnncheck.pipeline.subject.subject import next_key

NO_STATE_KEPT = "sequences are run without a state, and the data holds none"
SAMPLED = 32  # steps per batch whose next state is computed again


@dataclass(frozen=True)
class Break:
    """Where a stored state is not the one handed on; ``count`` of ``of`` joints are broken."""

    key: Key
    batch: int
    difference: Difference
    count: int
    of: int


def joints(evidence: Evidence) -> tuple[list[Break], int]:
    """Broken joints between neighbouring steps of every batch, and how many joints there are."""
    return evidence.once("joints", lambda: _joints(evidence))


def _joints(evidence: Evidence) -> tuple[list[Break], int]:
    breaks, count = list[Break](), 0
    if evidence.recording.skips:
        return [], 0
    for number, rows in enumerate(evidence.recording.batches):
        inside = (rows.joints[:, 1:] == Joint.CONTINUES) & rows.valid[:, 1:]
        for key in evidence.policy.carry:
            pair = handed_on(rows, key)
            if pair is None or not bool(inside.any()):
                continue
            count += int(inside.sum())
            found = broken(key, number, pair, inside)
            breaks += [found] if found else []
    return breaks, count


def next_states(rows: Rows, key: Key) -> Tensor | None:
    """The recorded next states ``[rows, steps, ...]``; None where they were not written.

    ``compact_obs`` leaves an unwritten buffer of zeros there while the root states are right.
    """
    after: Tensor | None = rows.data.get(next_key(key), None)
    here: Tensor | None = rows.data.get(key, None)
    unwritten = after is not None and not bool((after != 0).any())
    if unwritten and here is not None and bool((here != 0).any()):
        return None
    return after


def handed_on(rows: Rows, key: Key) -> tuple[Tensor, Tensor] | None:
    """The next states and the states that should equal them, ``[rows, steps - 1, ...]``."""
    after, here = next_states(rows, key), rows.data.get(key, None)
    if after is None or here is None or after.shape != here.shape:
        return None
    return after[:, :-1], here[:, 1:]


def broken(key: Key, number: int, pair: tuple[Tensor, Tensor], inside: Tensor) -> Break | None:
    """The break of one key in one batch, if there is one."""
    after, here = pair
    wide = inside.reshape(*inside.shape, *([1] * (here.ndim - 2)))
    differ = bits_differ(here, after.to(here.dtype)) & wide
    if not bool(differ.any()):
        return None
    gaps = torch.where(differ, gap(here, after).clamp_min(1e-300), 0.0)
    difference = locate(gaps, 0.0, after)
    assert difference is not None
    count = int(features(differ).any(-1).sum())
    return Break(key, number, difference, count, int(inside.sum()))


def overwritten(evidence: Evidence) -> tuple[Mismatch, int] | None:
    """A recorded next state that is not what the module writes at that step, and its batch.

    The rows are run together, as they were acted on.
    """
    keys = _repeated(evidence)
    for number, rows in _as_acted(evidence):
        if rows.data.shape[0] != evidence.env.rows:  # of several workers
            continue
        if keys and all(next_states(rows, key) is not None for key in evidence.policy.carry):
            own = written_again(evidence, rows)
            steps = rows.data[:, :SAMPLED].select(*keys)
            found = mismatches(steps, own, None, keys, rows.valid[:, :SAMPLED])
            if found:
                return found[0], number
    return None


def not_handed_on(evidence: Evidence) -> tuple[tuple[Mismatch, int] | None, int]:
    """Of data without next states: a recorded state that is not what the module writes at the step
    before it, with its batch, and how many were held against that."""
    keys, count = _repeated(evidence), 0
    for number, rows in _as_acted(evidence):
        if not keys or any(next_states(rows, key) is not None for key in evidence.policy.carry):
            continue
        inside = ((rows.joints[:, 1:] == Joint.CONTINUES) & rows.valid[:, 1:])[:, : SAMPLED - 1]
        own = written_again(evidence, rows)[:, : inside.shape[1]]
        after = rows.data[:, 1 : inside.shape[1] + 1]
        stored = TensorDict({key: after.get(key[1:]) for key in keys}, batch_size=inside.shape)
        count += int(inside.sum())
        found = mismatches(stored, own, None, keys, inside)
        if found:
            return (found[0], number), count
    return None, count


def not_carried_over(
    evidence: Evidence, going_on: Iterable[tuple[int, int, StepPlace]]
) -> tuple[tuple[Mismatch, int] | None, int]:
    """The same of first states of batches that go on: batch, row and the step before each."""
    keys, count, numbered = _repeated(evidence), 0, dict(_as_acted(evidence))
    by_batch = defaultdict[int, list[int]](list)
    for number, row, (batch, of_row, step) in going_on:
        steps = evidence.recording.batches[batch].valid.shape[1]
        last = (batch, of_row, step) == (number - 1, row, steps - 1)
        by_batch[number] += [row] if last else []
    for number, rows in by_batch.items():
        earlier, later = numbered.get(number - 1), numbered.get(number)
        if not keys or earlier is None or later is None:
            continue
        mask = torch.zeros(len(later.valid), 1, dtype=torch.bool)
        mask[rows] = True
        own = written_again(evidence, earlier, [earlier.valid.shape[1] - 1])
        first = {key: later.data.get(key[1:])[:, :1] for key in keys}
        count += len(rows)
        found = mismatches(TensorDict(first, batch_size=mask.shape), own, None, keys, mask)
        if found:
            return (found[0], number), count
    return None, count


def _repeated(evidence: Evidence) -> list[Key]:
    """The next states that a second run writes again."""
    noisy = random_outputs(evidence, evidence.policy, explore=True)
    return [key for key in map(next_key, evidence.policy.carry) if key not in noisy]


def _as_acted(evidence: Evidence) -> Iterator[tuple[int, Rows]]:
    """The batches, with their numbers, whose rows are those that the policy acted on with a
    state."""
    for number, rows in enumerate(evidence.recording.batches):
        stored = all(rows.data.get(key, None) is not None for key in evidence.policy.carry)
        if stored and not rows.random and rows.data.shape[0] % evidence.env.rows == 0:
            yield number, rows


def written_again(
    evidence: Evidence, rows: Rows, steps: Iterable[int] = range(SAMPLED)
) -> TensorDict:
    """What the module writes from recorded ``steps``, each from its stored state and flag."""
    subject, outputs = evidence.policy, list[TensorDict]()
    flag, flags = evidence.recording.flag(rows), _recorded_flags(evidence, rows)
    for t in (one for one in steps if one < rows.data.shape[1]):
        step = rows.data[:, t : t + 1]
        starts = torch.zeros(step.shape, dtype=torch.bool) if flag is None else flag[:, t : t + 1]
        stored = {key: step.get(key)[:, 0] for key in subject.carry}
        one_by_one = {key: value[:, t : t + 1] for key, value in flags.items()}
        states = StartStates(fresh=stored, kept=subject.carry, flags=one_by_one)
        written = unroll_subject(subject, subject.inputs_of(step), starts, states)
        outputs.append(written[:, 0])
    return TensorDict.stack(outputs, 1)


def _recorded_flags(evidence: Evidence, rows: Rows) -> dict[Key, Tensor]:
    """The start flags as they were recorded, ``[rows, steps, *flag]``."""
    found = {key: rows.data.get(key, None) for key in evidence.policy.flags}
    return {key: value for key, value in found.items() if value is not None}
