"""The way of a fault: where it enters, by stage, key and first step, and what it reaches."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.equivalence.mode_comparison import beginnings
from rnncheck.checks.evidence.batch_isolation import GRADIENT, changing, observed, parted
from rnncheck.checks.evidence.comparison import Mismatch, changes, mismatches
from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.experiment import Experiment, alternating, recurrent_experiment
from rnncheck.checks.evidence.loss_calls import changed_batch, run_loss
from rnncheck.checks.evidence.loss_isolation import loss_gradients
from rnncheck.checks.evidence.random_outputs import random_outputs
from rnncheck.checks.evidence.recurrent_pass import recurrent_outputs, row_states
from rnncheck.checks.evidence.traced_steps import inner_outputs
from rnncheck.checks.evidence.training_batches import Sample, collected, samples
from rnncheck.checks.rule import CouldNotLook, Unanswered
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.pipeline.keys import Key, declared, dotted, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.subject import Subject, innermost, next_key
from rnncheck.results.exhibits import FaultWay, WayPoint
from rnncheck.results.model import Finding, Stage

IN_LOSS = ("LS701",)
IN_MODULE = ("BD301", "BD304", "BD305")
OF_MODES = ("EQ201", "EQ202", "CL406")
IN_DATA = ("CL402", "CL403", "CL404", "CL405", "RP501", "RP502", "RP504", "RP506", "VL601")
_PARTS = ("next value", "target")  # of a loss, in the order in which they are made


def way_of(evidence: Evidence, finding: Finding) -> FaultWay | None:
    """The way of what a finding saw; None where it has none."""
    code = finding.code
    if code in IN_LOSS:
        return _told(_through_loss(evidence, _number(finding)), code, "the foreign value")
    if code in IN_MODULE:
        return _told(_through_module(evidence, _subject(evidence, finding)), code, "the change")
    if code in OF_MODES:
        return _told(_between_modes(evidence, _subject(evidence, finding)), code, "the difference")
    if code in IN_DATA:
        return _told(list(_through_data(evidence, finding)), code, "the wrong entry")
    return None


def _told(points: list[WayPoint], code: str, what: str) -> FaultWay:
    if not points:
        raise CouldNotLook("no entry of it was seen to carry the fault")
    return FaultWay(f"the way of {what}", tuple(points), (code,))


def _number(finding: Finding) -> int:
    where = finding.where
    return where.batch[0] if where is not None and where.batch else 0


def _subject(evidence: Evidence, finding: Finding) -> Subject:
    critic = evidence.critic if finding.stage is Stage.CRITIC else None
    return critic if critic is not None else evidence.policy


# --- through the loss ----------------------------------------------------------------------------


def _through_loss(evidence: Evidence, number: int) -> list[WayPoint]:
    """Entries inside the loss that move in segments that were not touched, as they are made."""
    sample = samples(evidence)[number]
    keys = observed(evidence, sample)
    for touched in parted(sample):
        changed, there = changed_batch(sample, touched, keys), ~touched & sample.valid
        passes = [inner_outputs(evidence, sample, td) for td in (sample.td, changed)]
        parts = [run_loss(evidence, sample, td).elements for td in (sample.td, changed)]
        inside = list(
            _moved_points(passes[0], passes[1], there, "a recurrent module inside the loss")
        )
        order = [name for name in _PARTS if name in parts[0]]
        made = [{name: one[name] for name in order if name in one} for one in parts]
        reached = list(_moved_points(made[0], made[1], there, ""))
        if inside or reached:
            return [_entered(touched, keys), *inside, *reached]
        if by_gradient := _by_gradient(evidence, sample, touched):
            return by_gradient
    return []


def _by_gradient(evidence: Evidence, sample: Sample, touched: Tensor) -> list[WayPoint]:
    """Where the loss gives nothing for each step: its gradient, beyond the rounding of its sums."""
    gradients, there = loss_gradients(evidence), ~touched & sample.valid
    changed = changed_batch(sample, touched, changing(evidence, sample, gradients))
    before, after = gradients(sample, sample.td), gradients(sample, changed)
    found = []
    for name, old in before.items():
        sizes = gap(after.get(name, old), old).flatten(2).amax(-1)
        moved = (sizes > GRADIENT * float(old.double().abs().max())) & there
        if bool(moved.any()):
            found.append(
                WayPoint("loss", name, _first(moved), "it moves with what other segments hold")
            )
    return found


def _entered(touched: Tensor, keys: list[Key]) -> WayPoint:
    names = ", ".join(dotted(key) for key in keys[:2])
    rows = touched.any(1).nonzero().flatten().tolist()
    said = f"{names} of other segments is changed, at {int(touched.sum())} steps of {len(rows)}"
    return WayPoint("batch", names, "", f"{said} {'row' if len(rows) == 1 else 'rows'}")


def _moved_points(
    before: dict[str, Tensor], after: dict[str, Tensor], there: Tensor, said: str
) -> Iterator[WayPoint]:
    for name, old in before.items():
        new = after.get(name)
        if new is not None and new.shape == old.shape:
            differ = bits_differ(old, new)
            moved = (differ.flatten(2).any(-1) if differ.ndim > 2 else differ) & there
            if bool(moved.any()):
                yield WayPoint("loss", name, _first(moved), said)


def _first(moved: Tensor) -> str:
    row, step = moved.nonzero()[0].tolist()
    return f"row {row}, step {step}"


# --- through a module ----------------------------------------------------------------------------


def _through_module(evidence: Evidence, subject: Subject) -> list[WayPoint]:
    made = constructed(evidence, subject)
    experiment = recurrent_experiment(evidence, subject, made)
    for mask, others in _changes_made(made):
        after = experiment.perturb(mask)
        points = list(_reached(evidence, experiment, after, others))
        if points:
            return points
    return []


def _changes_made(made: Constructed) -> Iterator[tuple[Tensor, Tensor]]:
    """Segments of a row, whole rows, and the later half of every segment with what is before."""
    yield from alternating(made)
    if made.rows > 1:
        first = torch.zeros_like(made.starts)
        first[0] = True
        yield first, ~first
    for step in range(1, made.steps):
        later = torch.zeros_like(made.starts)
        later[:, step] = True
        before = torch.zeros_like(made.starts)
        before[:, :step] = True
        yield later, before


def _reached(
    evidence: Evidence, experiment: Experiment, after: TensorDictBase, others: Tensor
) -> Iterator[WayPoint]:
    """What moved at ``others``, module by module in their order."""
    subject, told = experiment.subject, set[Key]()
    skip = row_states(evidence, subject) | random_outputs(evidence, subject)
    for path, module in innermost(subject.module):
        written = [key for key in declared(module, "out_keys") if key in tensor_keys(after)]
        keys = [key for key in written if key not in skip and key not in told]
        present = [key for key in keys if key in tensor_keys(experiment.base)]
        for change in changes(experiment.base, after, present, others):
            said = f"{type(module).__name__}{f' ({path})' if path else ''} writes it"
            told.add(change.key)
            yield WayPoint(str(subject.stage), dotted(change.key), _first(change.changed), said)


# --- between the modes ---------------------------------------------------------------------------


def _between_modes(evidence: Evidence, subject: Subject) -> list[WayPoint]:
    """The first module, in their order, whose outputs in recurrent mode are no longer those of the
    unroll, and what agrees before it."""
    skip = row_states(evidence, subject) | random_outputs(evidence, subject)
    for made, begins in beginnings(evidence, subject):
        out, agreed = recurrent_outputs(evidence, subject, made), list[str]()
        for path, module in innermost(subject.module):
            name = f"{type(module).__name__}{f' ({path})' if path else ''}"
            keys = [key for key in declared(module, "out_keys") if key not in skip]
            found = _parting(subject, made, out, keys)
            if found:
                first = min(found, key=lambda one: one.difference.first_step)
                place = f"step {first.difference.first_step}"
                before = [WayPoint(str(subject.stage), "", "", f"{', '.join(agreed)} agree")]
                here = f"{name} is the first module whose two modes part, {begins}"
                parted_at = WayPoint(str(subject.stage), dotted(first.key), place, here)
                return [*(before if agreed else []), parted_at]
            if any(key in tensor_keys(out) for key in keys):
                agreed.append(name)
    return []


def _parting(
    subject: Subject, made: Constructed, out: TensorDictBase, keys: list[Key]
) -> list[Mismatch]:
    """Which of ``keys`` differ: states where a segment ends, for recurrent mode may leave them out
    elsewhere, and all else at every step."""
    states = {next_key(key) for key in subject.carry}
    outputs = mismatches(out, made.truth, made.oracle, [key for key in keys if key not in states])
    ended = [key for key in keys if key in states]
    return outputs or mismatches(out, made.truth, made.oracle, ended, made.ends)


# --- through the data ----------------------------------------------------------------------------


def _through_data(evidence: Evidence, finding: Finding) -> Iterator[WayPoint]:
    """The step that a finding names, where it comes from and where it goes."""
    where = finding.where
    if where is None or len(where.batch) != 2 or where.step is None:
        return
    number, row = where.batch
    if finding.code[:2] == "CL":
        step = where.step
        at = f"collected batch {number}, row {row}, step {step}"
        yield WayPoint(str(finding.stage), finding.key, at, "it is wrong here")
        yield from _in_training(evidence, finding.key, (number, row, step))
        return
    if finding.code[:2] == "RP":
        yield from _from_collection(evidence, (number, row, where.step))
    at = f"batch {number}, row {row}, step {where.step}"
    yield WayPoint(str(finding.stage), finding.key, at, "it is wrong here")


def _from_collection(evidence: Evidence, place: tuple[int, int, int]) -> Iterator[WayPoint]:
    """Which collected steps stand here, and before it in the row."""
    number, row, step = place
    found = samples(evidence)
    if number >= len(found) or step >= found[number].ids.shape[1]:
        return
    ids, carry = found[number].ids, ", ".join(map(dotted, evidence.policy.carry))
    places = collected(evidence).places
    for one, said in ((step - 1, "stands before it in the row"), (step, "stands here")):
        if one >= 0 and int(ids[row, one]) >= 0:
            batch, there, then = places[int(ids[row, one])]
            at = f"collected batch {batch}, row {there}, step {then}"
            yield WayPoint("collect", carry, at, said)


def _in_training(evidence: Evidence, key: str, place: tuple[int, int, int]) -> Iterator[WayPoint]:
    """The training batch that holds a collected step."""
    try:
        wanted = collected(evidence).numbers.get(place, -1)
        found = samples(evidence)
    except Unanswered:
        return
    for number, sample in enumerate(found):
        here = (sample.ids == wanted) & sample.known
        if wanted >= 0 and bool(here.any()):
            at = f"training batch {number}, {_first(here)}"
            yield WayPoint("replay", key, at, "the same step, as the loss gets it")
            return
