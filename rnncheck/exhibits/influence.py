"""Who moves whom in a batch: step by step by gradient or by replacing, segment by segment by
replacing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import (
    changing,
    observed,
    paid,
    segments_of,
    through_rows,
)
from rnncheck.checks.evidence.constructed_batches import constructed
from rnncheck.checks.evidence.estimator_calls import batches, written
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, copied, loss_of, run_loss
from rnncheck.checks.evidence.loss_isolation import loss_gradients
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected, as_rows, row_states
from rnncheck.checks.evidence.traced_steps import inner_outputs
from rnncheck.checks.evidence.training_batches import Sample, samples
from rnncheck.checks.rule import CouldNotLook
from rnncheck.numerics.difference import bits_differ, gap
from rnncheck.numerics.perturb import perturbed
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.passes import RunSettings, run_recurrent
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.results.exhibits import Line, StepMatrix

SIDE = 48  # places of a matrix: chosen, each of them still seen on a phone
LEAST = 8  # places that are worth a picture: chosen
MOST_SEGMENTS = 8
DIGITS = 3  # significant ones that are stored: a colour tells no more
Values = dict[str, Tensor]
PREFERRED = ("target", "next value", "value_target", "advantage")


@dataclass(frozen=True)
class Field:
    """Something that gives per-step entries of a batch ``[rows, steps, ...]``, as the batch is or
    with other values at some steps."""

    of: str
    segments: Tensor  # numbered through all rows
    valid: Tensor
    given: Callable[[Tensor | None], Values]
    causal: bool = False

    def named(self, wanted: str) -> str:
        """The entry that is shown: the one that a finding names, or what a target is made of."""
        base = self.given(None)
        if not base:
            raise CouldNotLook("it gives nothing for each step")
        return next((name for name in (wanted, *PREFERRED) if name in base), [*base][-1])


def module_field(evidence: Evidence, subject: Subject, *, heads: bool) -> Field:
    """The module in recurrent mode on a training batch, or on heads laid end to end."""
    batch, segments = _batch(evidence, subject, heads=heads)
    shape = segments.shape
    keys = _read(subject, batch)
    skip = row_states(evidence, subject)

    def given(touched: Tensor | None) -> Values:
        td = batch.clone()
        if touched is not None:
            rows, draw = td.reshape(shape), torch.Generator().manual_seed(3)
            for key in keys:
                limits = evidence.env.limits.get(key)
                rows.set(key, perturbed(rows.get(key), touched, draw, limits))
            td = rows.reshape(batch.shape)
        out = as_rows(run_recurrent(subject, td), shape)
        states = [next_key(key) for key in subject.carry if next_key(key) not in skip]
        keep = [*states, *comparable_outputs(evidence, subject, out)]
        return {dotted(key): out.get(key) for key in keep if key in tensor_keys(out)}

    valid = torch.ones(shape, dtype=torch.bool)
    return Field(f"{subject.stage} in recurrent mode", segments, valid, given, causal=True)


def _batch(evidence: Evidence, subject: Subject, *, heads: bool) -> tuple[TensorDictBase, Tensor]:
    """A batch without what comes next, and its segments numbered through all rows."""
    if not heads:
        sample = samples(evidence)[0]
        keys = [key for key in tensor_keys(sample.td) if key[0] != "next"]
        return sample.td.select(*keys), through_rows(segments_of(sample))
    made = constructed(evidence, subject)
    return as_collected(subject, made.batch(subject)), through_rows(made.segments)


def _read(subject: Subject, batch: TensorDictBase) -> list[Key]:
    return list(subject.changeable_inputs(subject.inputs_of(batch)))


def loss_field(evidence: Evidence, number: int) -> Field:
    """The loss on a training batch, by what it gives for each step; where that is nothing, by its
    gradient, or by what the recurrent modules inside it give."""
    sample = _numbered(samples(evidence), number)
    loss = copied(loss_of(evidence))
    states = {dotted(k) for key in evidence.policy.carry for k in (key, next_key(key))}

    def elements(td: TensorDictBase) -> Values:
        found = run_loss(evidence, sample, td, loss=copied(loss)).elements
        return {k: v for k, v in found.items() if k.removeprefix("written ") not in states}

    if elements(sample.td):
        return _sampled(evidence, "loss", sample, elements)
    gradients = loss_gradients(evidence)
    if gradients(sample, sample.td):
        return _sampled(evidence, "loss", sample, lambda td: gradients(sample, td))
    return _sampled(evidence, "loss", sample, lambda td: inner_outputs(evidence, sample, td))


def estimator_field(evidence: Evidence, number: int) -> Field:
    """The value estimator on the batch that it is run on."""
    sample = _numbered(batches(evidence), number)
    return _sampled(evidence, "estimator", sample, lambda td: written(evidence, sample, td))


def _numbered(found: list[Sample], number: int) -> Sample:
    if number >= len(found):
        raise CouldNotLook("the batch is not kept")
    return found[number]


def _sampled(
    evidence: Evidence, of: str, sample: Sample, elements: Callable[[TensorDictBase], Values]
) -> Field:
    def by_sample(_: Sample, td: TensorDictBase) -> Values:
        return elements(td)

    keys = changing(evidence, sample, by_sample)
    keys = keys or [*observed(evidence, sample), *paid(evidence, sample)]

    def given(touched: Tensor | None) -> Values:
        td = sample.td if touched is None else changed_batch(sample, touched, keys)
        return elements(td)

    return Field(of, through_rows(segments_of(sample)), sample.valid, given)


def segment_map(field: Field, wanted: str, at: tuple[int, int] | None) -> StepMatrix:
    """Each segment replaced in turn: how far the others move, to the bit."""
    name = field.named(wanted)
    base, chosen = field.given(None)[name], _segments_around(field, at)
    lines: list[list[float]] = [[] for _ in chosen]
    for one in chosen:
        moved = _moved(base, field.given((field.segments == one) & field.valid)[name])
        for line, other in zip(lines, chosen, strict=True):
            here = moved[(field.segments == other) & field.valid]
            line.append(_short(float(here.max()) if here.numel() else 0.0))
    first = [(field.segments == one).nonzero()[0].tolist() for one in chosen]
    return StepMatrix(
        of=field.of,
        output=name,
        unit="largest change where a whole segment is replaced",
        places=tuple((row, step) for row, step in first),
        borders=tuple(range(len(chosen))),
        values=tuple(map(tuple, lines)),
        by_segment=True,
    )


def _segments_around(field: Field, at: tuple[int, int] | None) -> list[int]:
    numbers: list[int] = field.segments[field.valid].unique().tolist()
    if len(numbers) < 2:
        raise CouldNotLook("the batch holds one segment")
    here = numbers.index(int(field.segments[at])) if at is not None and field.valid[at] else 0
    begin = max(0, min(here - MOST_SEGMENTS // 2, len(numbers) - MOST_SEGMENTS))
    return numbers[begin : begin + MOST_SEGMENTS]


def replaced_matrix(
    field: Field, wanted: str, at: tuple[int, int] | None, seconds: float
) -> StepMatrix:
    """Each step replaced in turn: how far what is given at the others moves."""
    name, begin = field.named(wanted), time.perf_counter()
    base = field.given(None)[name]
    places = _places(field.valid, at, seconds, time.perf_counter() - begin)
    columns = []
    for row, step in places:
        touched = torch.zeros_like(field.valid)
        touched[row, step] = True
        moved = _moved(base, field.given(touched)[name])
        columns.append([_short(float(moved[r, s])) for r, s in places])
    values = tuple(zip(*columns, strict=True))
    unit = "largest change where the step is replaced"
    return _matrix(field, name, unit, places, values)


def gradient_matrix(
    evidence: Evidence,
    subject: Subject,
    at: tuple[int, int] | None,
    seconds: float,
    *,
    heads: bool,
) -> StepMatrix:
    """The gradient of the module's output at each step, at what is observed at the others."""
    batch, segments = _batch(evidence, subject, heads=heads)
    field = Field(f"{subject.stage} in recurrent mode", segments, segments >= 0, _nothing, True)
    floats = [key for key in _read(subject, batch) if batch.get(key).is_floating_point()]
    if not floats:
        raise CouldNotLook("nothing that is observed is a float")
    leaves = {key: batch.get(key).clone().requires_grad_() for key in floats}
    td = batch.clone().update(leaves)
    out = as_rows(run_recurrent(subject, td, settings=RunSettings(grad=True)), segments.shape)
    keys = [k for k in comparable_outputs(evidence, subject, out) if out.get(k).requires_grad]
    if not keys:
        raise CouldNotLook("no output has a gradient")
    key = _widest_last(out, keys)
    weighed = _mixed(out.get(key), segments.shape)
    begin = time.perf_counter()
    _norms(weighed, at or (0, 0), leaves, segments.shape)
    places = _places(field.valid, at, seconds, time.perf_counter() - begin)
    values = []
    for place in places:
        found = _norms(weighed, place, leaves, segments.shape)
        values.append(tuple(_short(float(found[r, s])) for r, s in places))
    unit = "norm of the gradient of a random mixture of its features"
    return _matrix(field, dotted(key), unit, places, tuple(values))


def _widest_last(out: TensorDictBase, keys: list[Key]) -> Key:
    """The last output with several features: what comes behind it is made of one of them."""
    wide = [key for key in keys if out.get(key).numel() > out.numel()]
    return [*keys, *wide][-1]


def by_distance(matrix: StepMatrix) -> Line:
    """The mean over all pairs of steps of one segment, by how far they lie apart."""
    found: dict[int, list[float]] = {}
    for i, line in enumerate(matrix.values):
        for j in range(i + 1):
            if matrix.allowed(i, j):
                found.setdefault(i - j, []).append(line[j])
    lags = sorted(found)
    means = [_short(sum(found[lag]) / len(found[lag])) for lag in lags]
    return Line(matrix.output, tuple(map(float, lags)), tuple(means))


def _nothing(_: Tensor | None) -> Values:
    return {}


def _matrix(
    field: Field,
    name: str,
    unit: str,
    places: list[tuple[int, int]],
    values: tuple[tuple[float, ...], ...],
) -> StepMatrix:
    numbers = [int(field.segments[place]) for place in places]
    borders = [i for i, one in enumerate(numbers) if i == 0 or one != numbers[i - 1]]
    return StepMatrix(
        field.of, name, unit, tuple(places), tuple(borders), values, causal=field.causal
    )


def _places(
    valid: Tensor, at: tuple[int, int] | None, seconds: float, each: float
) -> list[tuple[int, int]]:
    """As many neighbouring steps around ``at`` as there is time for."""
    count = min(SIDE, int(seconds / max(each, 1e-6)))
    if count < LEAST:
        raise CouldNotLook(f"one step takes {each:.1f} s")
    every = [(row, step) for row, step in valid.nonzero().tolist()]
    here = every.index(at) if at in every else 0
    begin = max(0, min(here - count // 2, len(every) - count))
    return every[begin : begin + count]


def _mixed(value: Tensor, shape: torch.Size) -> Tensor:
    """``[rows, steps]``: the features of each step in a random mixture."""
    flat = value.reshape(*shape, -1)
    weights = torch.randn(flat.shape[-1], generator=torch.Generator().manual_seed(4))
    return (flat * weights.to(flat.dtype)).sum(-1)


def _norms(
    weighed: Tensor, place: tuple[int, int], leaves: dict[Key, Tensor], shape: torch.Size
) -> Tensor:
    grads = torch.autograd.grad(
        weighed[place], list(leaves.values()), retain_graph=True, allow_unused=True
    )
    total = torch.zeros(shape, dtype=torch.float64)
    for grad in grads:
        if grad is not None:
            total += grad.detach().double().reshape(*shape, -1).square().sum(-1)
    return total.sqrt()


def _moved(before: Tensor, after: Tensor) -> Tensor:
    """``[rows, steps]``: the largest change of each step; what differs in no bit is 0."""
    if before.shape != after.shape:
        raise CouldNotLook("it gives another shape for changed steps")
    differ = bits_differ(before, after)
    gaps = torch.where(differ, gap(after, before).clamp_min(1e-300), 0.0)
    return gaps.flatten(2).amax(-1) if gaps.ndim > 2 else gaps


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def place_in(field: Field, row: int | None, step: int | None) -> tuple[int, int] | None:
    """The step, where the batch has it."""
    rows, steps = field.valid.shape
    if row is None or step is None or row >= rows or step >= steps:
        return None
    return row, step
