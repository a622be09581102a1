"""Perturbing some steps of a constructed batch, and seeing what changes elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.comparison import OutputChange, changes
from rnncheck.checks.evidence.constructed_batches import runs_in_double
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import needs_recurrence, recurrent_rows, row_states
from rnncheck.checks.rule import CouldNotLook, Deferred
from rnncheck.numerics.difference import bits_differ
from rnncheck.numerics.perturb import changeable, perturbed
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.subject.heads import Constructed
from rnncheck.pipeline.subject.subject import Subject, next_key

Runner = Callable[[TensorDictBase, torch.dtype | None], TensorDictBase]


ROUNDING = 1e-11  # of the largest value: what float64 leaves of a change that is rounding alone


@dataclass
class Experiment:
    """A constructed batch, a way to run it, and its result; perturbations are run against it.

    ``run`` takes inputs ``[rows, steps]`` and a dtype (None for the module's own) to outputs
    ``[rows, steps]``.
    """

    evidence: Evidence
    subject: Subject
    made: Constructed
    run: Runner
    unasked: frozenset[Key] = frozenset()  # states that are no step's own

    def __post_init__(self) -> None:
        self.base = self.run(self.made.inputs, None)
        again = self.run(self.made.inputs, None)
        carry = [next_key(key) for key in self.subject.carry]
        keys = [*comparable_outputs(self.evidence, self.subject, self.base), *carry]
        there = [key for key in keys if key in tensor_keys(self.base)]
        present = [key for key in there if key not in self.unasked] or there
        self.keys = [
            k for k in present if not bool(bits_differ(self.base.get(k), again.get(k)).any())
        ]
        numbers = [k for k in self.keys if not bool(self.base.get(k).isnan().any())]
        if self.keys and not numbers:
            raise Deferred(f"the {self.subject.stage}'s outputs are NaN", "CL409")
        if not self.keys:
            raise Deferred(f"the {self.subject.stage} is not repeatable", "EQ206")

    def perturb(
        self,
        mask: Tensor,
        scale: float = 1.0,
        dtype: torch.dtype | None = None,
        *,
        tokens: bool = False,
    ) -> TensorDictBase:
        """Outputs with the inputs changed at ``mask`` ``[rows, steps]``."""
        return self.run(self.other_inputs(mask, scale, tokens=tokens), dtype)

    def other_inputs(
        self, mask: Tensor, scale: float = 1.0, *, tokens: bool = False
    ) -> TensorDictBase:
        """The inputs, changed at ``mask``.

        Integers take values that occur; where there is one alone, or with ``tokens``, which changes
        them beside floats, any that the env's spec allows.
        """
        inputs, limits = self.made.inputs.clone(), self.evidence.env.limits
        generator = torch.Generator().manual_seed(11)
        observed = self.subject.changeable_inputs(inputs)
        keys = [] if tokens else [k for k in observed if changeable(inputs.get(k))]
        whole = [] if keys else self.tokens()
        if not keys and not whole:
            raise CouldNotLook(f"no input of the {self.subject.stage} can be changed")
        for key in [*(keys or observed), *whole]:
            drawn = limits.get(key) if key in whole else None
            value = perturbed(inputs.get(key), mask, generator, drawn)
            if scale != 1.0 and value.is_floating_point():
                value = inputs.get(key) + scale * (value - inputs.get(key))
            inputs.set(key, value)
        return inputs

    def tokens(self) -> list[Key]:
        """Integers among the inputs of which the env's spec allows several."""
        read, limits = self.subject.reads, self.evidence.env.limits
        given = [key for key in tensor_keys(self.made.inputs) if not read or key in read]
        return [k for k in given if k in limits and changeable(self.made.inputs.get(k), limits[k])]

    def changed(self, after: TensorDictBase, watch: Tensor) -> list[OutputChange]:
        """What differs from the unperturbed result at ``watch``."""
        return changes(self.base, after, self.keys, watch)

    def leaks(self, after: TensorDictBase, mask: Tensor, watch: Tensor) -> list[OutputChange]:
        """What changed at ``watch`` because of ``mask``, unless float64 shows it to be rounding
        alone.

        A leak is as large in float64 as it is in float32. What a sum over the whole row leaves in
        the last bits of another segment shrinks with the precision.
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
        row_states(evidence, subject),
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
