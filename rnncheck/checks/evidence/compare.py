"""Comparing outputs: within a bound against the oracle, or to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.constructed_batches import runs_in_double
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import needs_recurrence, recurrent_rows
from rnncheck.checks.rule import Vacuous
from rnncheck.numerics.difference import Difference, bits_differ, gap, locate
from rnncheck.numerics.perturb import changeable, perturbed
from rnncheck.numerics.tolerance import bound
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.subject import Subject, next_key
from rnncheck.results.model import Finding, Source, Where

DISCRETE_SHARE = 0.05  # discrete outputs may flip at a tie; a fault flips more than this share


@dataclass(frozen=True)
class Mismatch:
    """One key that lies beyond its bound."""

    key: Key
    difference: Difference
    bound: float
    formula: str


def mismatches(
    candidate: TensorDictBase,
    truth: TensorDictBase,
    oracle: TensorDictBase | None,
    keys: Iterable[Key],
    mask: Tensor | None = None,
) -> list[Mismatch]:
    """The keys of ``candidate`` ``[rows, steps]`` that are no rounding of the oracle, worst first.

    ``mask`` limits the comparison to some steps. Discrete keys count only where no float key is compared, and then
    only beyond a share of flips that ties can explain.
    """
    shared = [key for key in keys if key in tensor_keys(candidate) and key in tensor_keys(truth)]
    floats = [key for key in shared if candidate.get(key).is_floating_point()]
    found = [_float_mismatch(key, candidate, truth, oracle, mask) for key in floats]
    if not floats:
        found = [_discrete_mismatch(key, candidate, truth, mask) for key in shared]
    real = [item for item in found if item is not None]
    return sorted(real, key=lambda item: -item.difference.relative)


def _float_mismatch(
    key: Key,
    candidate: TensorDictBase,
    truth: TensorDictBase,
    oracle: TensorDictBase | None,
    mask: Tensor | None,
) -> Mismatch | None:
    value, reference = candidate.get(key), truth.get(key)
    if value.shape != reference.shape:
        return None
    exact = None if oracle is None else oracle.get(key)
    limit = bound(reference, exact, value.dtype)
    gaps = gap(value, reference if exact is None else exact)
    gaps = _masked(gaps, mask).masked_fill(limit.lost, 0.0)
    difference = locate(gaps, limit.values, reference)
    if difference is None:
        return None
    here = limit.values.expand_as(gaps)[(difference.row, difference.step, *difference.feature)]
    return Mismatch(key, difference, float(here), limit.formula)


def _discrete_mismatch(
    key: Key, candidate: TensorDictBase, truth: TensorDictBase, mask: Tensor | None
) -> Mismatch | None:
    value, reference = candidate.get(key), truth.get(key)
    if value.shape != reference.shape:
        return None
    gaps = _masked((value != reference).double(), mask)
    if float(gaps.mean()) <= DISCRETE_SHARE:
        return None
    difference = locate(gaps, 0.0, reference)
    return None if difference is None else Mismatch(key, difference, 0.0, "no flips beyond ties")


def _masked(gaps: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return gaps
    return gaps * mask.reshape(*mask.shape, *([1] * (gaps.ndim - 2)))


@dataclass(frozen=True)
class Change:
    """Where outputs changed to the bit: ``[rows, steps]`` per key, and the largest change."""

    key: Key
    changed: Tensor
    difference: Difference


def changes(
    before: TensorDictBase, after: TensorDictBase, keys: Iterable[Key], watch: Tensor
) -> list[Change]:
    """Keys in which a step of ``watch`` ``[rows, steps]`` is not bit for bit what it was."""
    found = []
    for key in keys:
        old, new = before.get(key), after.get(key)
        differ = _masked(bits_differ(old, new).double(), watch) > 0
        if bool(differ.any()):
            gaps = torch.where(differ, gap(new, old).clamp_min(torch.finfo(torch.double).tiny), 0.0)
            difference = locate(gaps, 0.0, old)
            steps = differ.flatten(2).any(-1) if differ.ndim > 2 else differ
            if difference is not None:
                found.append(Change(key, steps, difference))
    return sorted(found, key=lambda change: -change.difference.worst)


Runner = Callable[[TensorDictBase, torch.dtype | None], TensorDictBase]
ROUNDING = 1e-11  # of the largest value: what float64 leaves of a change that is rounding alone


@dataclass
class Experiment:
    """A constructed batch, a way to run it, and its result; perturbations are run against it.

    ``run`` takes inputs ``[rows, steps]`` and a dtype (None for the module's own) to outputs ``[rows, steps]``.
    """

    evidence: Evidence
    subject: Subject
    made: Constructed
    run: Runner

    def __post_init__(self) -> None:
        self.base = self.run(self.made.inputs, None)
        again = self.run(self.made.inputs, None)
        carry = [next_key(key) for key in self.subject.carry]
        keys = [*comparable_outputs(self.evidence, self.subject, self.base), *carry]
        present = [key for key in keys if key in tensor_keys(self.base)]
        self.keys = [
            k for k in present if not bool(bits_differ(self.base.get(k), again.get(k)).any())
        ]
        numbers = [k for k in self.keys if not bool(self.base.get(k).isnan().any())]
        if self.keys and not numbers:
            raise Vacuous(f"the {self.subject.stage}'s outputs are NaN")
        if not self.keys:
            raise Vacuous(f"the {self.subject.stage} is not repeatable (EQ206)")

    def perturb(
        self, mask: Tensor, scale: float = 1.0, dtype: torch.dtype | None = None
    ) -> TensorDictBase:
        """Outputs with the inputs changed at ``mask`` ``[rows, steps]``."""
        inputs = self.made.inputs.clone()
        generator = torch.Generator().manual_seed(11)
        keys = [k for k in self.subject.changeable_inputs(inputs) if changeable(inputs.get(k))]
        if not keys:
            raise Vacuous(f"no input of the {self.subject.stage} can be changed")
        for key in keys:
            value = perturbed(inputs.get(key), mask, generator)
            if scale != 1.0 and value.is_floating_point():
                value = inputs.get(key) + scale * (value - inputs.get(key))
            inputs.set(key, value)
        return self.run(inputs, dtype)

    def changed(self, after: TensorDictBase, watch: Tensor) -> list[Change]:
        """What differs from the unperturbed result at ``watch``."""
        return changes(self.base, after, self.keys, watch)

    def leaks(self, after: TensorDictBase, mask: Tensor, watch: Tensor) -> list[Change]:
        """What changed at ``watch`` because of ``mask``, unless float64 shows it to be rounding alone.

        A leak is as large in float64 as it is in float32. What a sum over the whole row leaves in the last bits of
        another segment shrinks with the precision.
        """
        found = self.changed(after, watch)
        if not found or not self._vanishes(mask, watch):
            return found
        self.evidence.rounded = max(self.evidence.rounded, found[0].difference.worst)
        return []

    def _vanishes(self, mask: Tensor, watch: Tensor) -> bool:
        if not runs_in_double(self.evidence, self.subject, self.made.inputs[:1]):
            return False
        exact = self.run(self.made.inputs, torch.float64)
        after = self.perturb(mask, dtype=torch.float64)
        left = changes(exact, after, [k for k in self.keys if k in tensor_keys(exact)], watch)
        return all(change.difference.relative <= ROUNDING for change in left)


def recurrent_experiment(evidence: Evidence, subject: Subject, made: Constructed) -> Experiment:
    """An experiment in recurrent mode."""
    needs_recurrence(evidence, subject)
    return Experiment(
        evidence,
        subject,
        made,
        lambda inputs, dtype: recurrent_rows(evidence, subject, made.batch(subject, inputs), dtype),
    )


def alternating(made: Constructed) -> Iterator[tuple[Tensor, Tensor]]:
    """Per row, its even and then its odd segments, each with the segments of that row in between.

    One row at a time, so that rows which mix (BD305) are not taken for segments which leak.
    """
    for row in range(made.rows):
        own = torch.zeros_like(made.starts)
        own[row] = True
        for parity in (0, 1):
            chosen = made.segments % 2 == parity
            yield own & chosen, own & ~chosen


def place_of(made: Constructed, difference: Difference) -> Where:
    """A difference's place in a constructed batch."""
    return Where(
        batch=(difference.row,),
        step=difference.step,
        feature=difference.feature,
        segment=int(made.segments[difference.row, difference.step]),
        first_step=difference.first_step,
    )


def source_of(evidence: Evidence, subject: Subject) -> Source:
    """Where the user wrote the subject."""
    return evidence.pipeline.source(subject.stage)


def sizes(made: Constructed, what: str = "constructed from the first steps of episodes") -> str:
    """``1 row x 32 steps in 6 segments, constructed from ...``."""
    count = int(made.starts.sum())
    return f"{made.rows} x {made.steps} steps in {count} segments, {what}"


def mismatch_finding(
    code: str,
    evidence: Evidence,
    subject: Subject,
    made: Constructed,
    found: Mismatch,
    *,
    message: str,
    cause: str,
    fix: str,
) -> Finding:
    """A finding from a mismatch in a constructed batch."""
    d = found.difference
    return Finding(
        code=code,
        stage=subject.stage,
        message=message,
        key=dotted(found.key),
        quantity=f"max abs error of {dotted(found.key)} against the isolated replay",
        measured=d.worst,
        on=sizes(made),
        bound=found.bound,
        bound_formula=found.formula,
        passing_bound=d.worst,
        where=place_of(made, d),
        cause=cause,
        fix=fix,
        source=source_of(evidence, subject),
        details={
            "elements beyond the bound": f"{d.differing} of {d.elements}",
            "relative to the largest value": f"{d.relative:.2g}",
        },
    )


def change_finding(
    code: str,
    evidence: Evidence,
    subject: Subject,
    made: Constructed,
    found: Change,
    *,
    message: str,
    cause: str,
    fix: str,
) -> Finding:
    """A finding from an isolation experiment: any bit that changed is too much."""
    d = found.difference
    return Finding(
        code=code,
        stage=subject.stage,
        message=message,
        key=dotted(found.key),
        quantity=f"change of {dotted(found.key)} where nothing may change",
        measured=d.worst,
        on=sizes(made),
        bound=0.0,
        bound_formula="isolation is bitwise",
        passing_bound=d.worst,
        where=place_of(made, d),
        cause=cause,
        fix=fix,
        source=source_of(evidence, subject),
        details={"steps that changed": f"{int(found.changed.sum())} of {found.changed.numel()}"},
    )
