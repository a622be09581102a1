"""Whether what makes the training batches burns states in: spends the first steps of a slice on its
opening state.

Asked by experiment. The maker (the buffer's transforms, the ``batch`` factory) runs again on
samples whose left-out steps were observed differently: a state that was burned in changes with
them, a stored one does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.burn_in_by_loss import warms_up
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import UNREAD, ambient, changed_batch
from rnncheck.checks.evidence.opening_states import wrong_openings
from rnncheck.checks.evidence.training_batches import Sample, make_sample
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.placing import place_of, placed, precision_as_set
from rnncheck.pipeline.recording.batch_makers import Maker
from rnncheck.pipeline.recording.recurrent_runs import RecurrentRuns
from rnncheck.pipeline.subject.passes import unroll_subject
from rnncheck.pipeline.subject.subject import Subject, next_key

APPROXIMATED = "the slices open with states that a burn-in approximates (RP508 judges it)"
TRIED = 4  # openings on which the policy is asked what its state depends on
SEQUENTIAL = (
    "it runs in sequential mode, in which every step of a batch starts from its own stored state"
)
MODE = (
    "run the burn-in in recurrent mode: `with set_recurrent_mode(True): ...`, or modules with"
    " default_recurrent_mode=True"
)


@dataclass(frozen=True)
class Opening:
    """Steps ``[begin, start)`` of a row of the given sample were left out; ``start`` is now at
    ``place``."""

    row: int
    begin: int
    start: int
    place: tuple[int, int]


@dataclass(frozen=True)
class WarmUp:
    """What one maker does with the steps that it leaves out."""

    maker: Maker
    openings: tuple[Opening, ...]
    ready_made: tuple[int, ...]  # `burn_in` of every BurnInTransform that ran
    ran: bool  # a recurrent module ran on just the steps that were left out
    whole: bool  # no step was left out
    can: frozenset[Key] = frozenset()  # states that depend on what is observed there
    reached: frozenset[Key] = frozenset()  # states that changed with it
    deep: bool = True  # not with the last step that was left out alone

    @property
    def spent(self) -> int:
        """The most steps that were left out of a slice."""
        return max((o.start - o.begin for o in self.openings), default=0)

    @property
    def works(self) -> bool:
        """States are burned in, over more than one step where more were left out."""
        return bool(self.reached) and self.reached >= self.can and self.deep


def warm_ups(evidence: Evidence) -> list[WarmUp]:
    """Every maker that leaves out first steps or runs a BurnInTransform."""
    return evidence.once("warm-ups", lambda: _warm_ups(evidence))


def _warm_ups(evidence: Evidence) -> list[WarmUp]:
    found = (_look(evidence, maker) for maker in evidence.pipeline.makers)
    return [one for one in found if one is not None]


def working(evidence: Evidence) -> bool:
    """Whether some maker burns states in."""
    return any(one.works for one in warm_ups(evidence))


def last_step_alone(evidence: Evidence) -> bool:
    """Whether a burn-in makes states of the last step alone that it is given."""
    return any(
        (one.ran or one.ready_made) and one.reached and not one.deep for one in warm_ups(evidence)
    )


def approximated(evidence: Evidence, sample: Sample) -> bool:
    """Slices open with states that were burned in from something else than the trajectory's own
    state."""
    if not working(evidence) and not warms_up(evidence, sample):
        return False
    starts = sample.marked & sample.known & ~sample.trajectory_start()
    for key in evidence.policy.carry:
        stored, recorded = sample.rows.get(key, None), sample.steps.column(key)
        if recorded is None:
            continue
        if stored is None:
            return True
        if bool(wrong_openings(evidence, sample, key, starts, stored, recorded).any()):
            return True
    return False


# --- experiments -----------------------------------------------------------------------------


def _look(evidence: Evidence, maker: Maker) -> WarmUp | None:
    if maker.given.batch_dims == 0:
        return None
    given = make_sample(evidence, maker.given)
    with RecurrentRuns() as runs:
        made = made_again(evidence, maker, maker.given)
    if made is None:
        return None
    openings = _openings(given, made)
    whole = int(made.known.sum()) >= int(given.known.sum())
    left_out = sum(o.start - o.begin for o in openings)
    ran = left_out > 0 and left_out in runs.steps.values()
    seen = WarmUp(maker, tuple(openings), tuple(runs.ready_made), ran, whole)
    if not openings:
        return seen if runs.ready_made else None
    return _asked(evidence, seen, given, made)


def _asked(evidence: Evidence, seen: WarmUp, given: Sample, made: Sample) -> WarmUp | None:
    """``seen`` with what the experiments say; None where the maker draws random numbers of its
    own."""
    keys = _observed(evidence, given)
    every, early = (_mask(given, seen.openings, but=but) for but in (0, 1))
    repeat = made_again(evidence, seen.maker, seen.maker.given)
    changed = made_again(evidence, seen.maker, changed_batch(given, every, keys))
    sooner = made_again(evidence, seen.maker, changed_batch(given, early, keys))
    if repeat is None or changed is None or sooner is None:
        return None
    if _changed(evidence, seen.openings, made, repeat):
        return None
    can, deep = _dependence(evidence, seen.openings, given, keys)
    reached = _changed(evidence, seen.openings, made, changed)
    return replace(
        seen,
        can=can & frozenset(tensor_keys(made.rows)),
        reached=reached,
        deep=not deep or bool(_changed(evidence, seen.openings, made, sooner)),
    )


def made_again(evidence: Evidence, maker: Maker, td: TensorDictBase) -> Sample | None:
    """What the maker makes of ``td`` with the same random numbers; None where it refuses that."""
    try:
        with precision_as_set(), ambient():  # it is held against what it made before
            made = maker.again(placed(td, place_of(maker.given)).clone())
    except Exception:  # it ran on the data as it was; changed data may be refused
        return None
    usable = isinstance(made, TensorDictBase) and made.batch_dims > 0 and made.numel() > 0
    return make_sample(evidence, made.detach()) if usable else None


def _observed(evidence: Evidence, given: Sample) -> tuple[Key, ...]:
    subject = evidence.policy
    inputs = subject.inputs_of(given.rows)
    return tuple(key for key in subject.changeable_inputs(inputs) if key[0] not in UNREAD)


def _mask(given: Sample, openings: tuple[Opening, ...], *, but: int) -> Tensor:
    """The steps that were left out, without the last ``but`` of each slice."""
    mask = torch.zeros_like(given.valid)
    for one in openings:
        mask[one.row, one.begin : max(one.begin, one.start - but)] = True
    return mask


def _changed(
    evidence: Evidence, openings: tuple[Opening, ...], one: Sample, other: Sample
) -> frozenset[Key]:
    """Carry keys whose opening states differ between two runs of a maker."""
    if one.rows.shape != other.rows.shape:
        return frozenset()
    places = torch.tensor([o.place for o in openings])
    found = set()
    for key in evidence.policy.carry:
        left, right = one.rows.get(key, None), other.rows.get(key, None)
        if left is None or right is None or left.shape != right.shape:
            continue
        at = places[:, 0], places[:, 1]
        if bool(bits_differ(left[at], right[at]).any()):
            found.add(key)
    return frozenset(found)


def _dependence(
    evidence: Evidence, openings: tuple[Opening, ...], given: Sample, keys: tuple[Key, ...]
) -> tuple[frozenset[Key], bool]:
    """States that the policy itself makes depend on the left-out steps, and whether on more than
    the last one."""
    subject = evidence.policy
    can, deep = set[Key](), False
    for one in openings[:TRIED]:
        whole = _ended(subject, given, one, keys, 0)
        base, early = _ended(subject, given, one, keys, None), _ended(subject, given, one, keys, 1)
        can |= {key for key in subject.carry if _differ(base, whole, key)}
        deep |= one.start - one.begin > 1 and any(_differ(base, early, k) for k in subject.carry)
    return frozenset(can), deep


def _ended(
    subject: Subject, given: Sample, one: Opening, keys: tuple[Key, ...], but: int | None
) -> TensorDictBase:
    """What the policy gives at the last left-out step; with ``but``, other observations up to that
    many before it."""
    td = given.td if but is None else changed_batch(given, _mask(given, (one,), but=but), keys)
    rows = td.reshape(given.rows.shape)[one.row : one.row + 1, one.begin : one.start]
    starts = torch.zeros(rows.shape, dtype=torch.bool)
    starts[:, 0] = True
    return unroll_subject(subject, subject.inputs_of(rows), starts)[:, -1]


def _differ(one: TensorDictBase, other: TensorDictBase, key: Key) -> bool:
    left, right = one.get(next_key(key), None), other.get(next_key(key), None)
    return left is not None and right is not None and bool(bits_differ(left, right).any())


# --- which steps were left out ---------------------------------------------------------------


def _openings(given: Sample, made: Sample) -> list[Opening]:
    """Stretches of time of which only the end is left, in the order of what was made."""
    before, found = _stretches(given), list[Opening]()
    for row, begin, ids in _stretches(made):
        if begin and not bool(made.known[row, begin - 1]):  # it may begin with that step
            continue
        for number, (old_row, old_begin, old_ids) in enumerate(before):
            offset = _offset(old_ids, ids)
            if offset is None:
                continue
            if offset > 0:
                place = (row, begin)
                found.append(Opening(old_row, old_begin, old_begin + offset, place))
            del before[number]
            break
    return found


def _offset(whole: list[int], part: list[int]) -> int | None:
    """Where ``part`` stands inside ``whole``."""
    if part[0] not in whole:
        return None
    at = whole.index(part[0])
    return at if whole[at : at + len(part)] == part else None


def _stretches(sample: Sample) -> list[tuple[int, int, list[int]]]:
    """Row, first column and step numbers of every stretch of known steps that follow each other
    unmarked."""
    found = list[tuple[int, int, list[int]]]()
    cut = ~sample.follows | sample.marked
    for row in range(sample.ids.shape[0]):
        for step in range(sample.ids.shape[1]):
            if not bool(sample.known[row, step]):
                continue
            if bool(cut[row, step]) or not found:
                found.append((row, step, []))
            found[-1][2].append(int(sample.ids[row, step]))
    return found
