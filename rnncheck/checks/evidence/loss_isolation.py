"""Which parts of a loss, and of the policy inside it, change with another segment's
observations."""

from __future__ import annotations

from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import (
    GRADIENT,
    Elements,
    Leak,
    input_gradients,
    leaks,
    observed,
    segments_of,
    without_memory,
)
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import (
    changed_batch,
    copied,
    loss_of,
    memoryless_batch,
    run_loss,
)
from rnncheck.checks.evidence.recurrent_pass import row_states
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.pipeline.subject.subject import next_key


def policy_leaks(evidence: Evidence, sample: Sample) -> bool:
    """Whether the policy's own recurrent pass mixes the segments of this batch."""
    subject = evidence.policy

    def outputs(td: TensorDictBase) -> dict[str, Tensor]:
        batch = td.select(*[key for key in tensor_keys(td) if key[0] != "next"])
        out = run_recurrent(subject, batch).reshape(sample.rows.shape)
        return {".".join(k): out.get(k) for k in tensor_keys(out) if k in written}

    try:
        written = set(subject.writes) - row_states(evidence, subject)
        return bool(leaks(evidence, sample, outputs)[0])
    except Exception:  # a policy without a recurrent mode is judged through its loss alone
        return False


def loss_leaks(evidence: Evidence, sample: Sample) -> tuple[list[Leak], bool]:
    """Leaks of the loss that its memoryless twin does not have."""
    loss = copied(loss_of(evidence))

    def elements(td: TensorDictBase) -> dict[str, Tensor]:
        found = run_loss(evidence, sample, td, loss=copied(loss)).elements
        return {name: value for name, value in found.items() if not _passed_on(name, sample)}

    def gradients(td: TensorDictBase) -> dict[str, Tensor]:
        return input_gradients(
            evidence, sample, td,
            lambda b: run_loss(evidence, sample, b, loss=copied(loss), per_element=False).total,
        )  # fmt: skip

    found, alive = leaks(evidence, sample, elements)
    more, lively = leaks(evidence, sample, gradients, tolerance=GRADIENT)
    real = [
        *_without_twin(evidence, sample, found, elements),
        *_without_twin(evidence, sample, more, gradients),
    ]
    return real, alive or lively


def _passed_on(name: str, sample: Sample) -> bool:
    """States that a pass leaves in the batch: they are inputs of the next pass, not parts of the
    loss."""
    carry = sample.steps.recording.subject.carry
    return name in {"written " + ".".join(key) for k in carry for key in (k, next_key(k))}


def _without_twin(
    evidence: Evidence, sample: Sample, found: list[Leak], elements: Elements
) -> list[Leak]:
    """The leaks that are not the loss's nature.

    What couples samples by nature (a mean, a normalisation) couples them in the memoryless twin,
    and backwards in time as well: earlier segments change with the last one. A pass that ignores
    its marks only leaks forwards.
    """
    if not found:
        return []
    last = last_segments(sample)

    changed = changed_batch(sample, last, observed(evidence, sample))
    twin = without_memory(elements)
    base, after = (twin(memoryless_batch(sample, td)) for td in (sample.td, changed))
    natural = {
        name
        for name, old in base.items()
        if name in after and _moves(old, after[name], ~last & sample.valid)
    }
    return [leak for leak in found if leak.name not in natural]


def last_segments(sample: Sample) -> Tensor:
    """Steps of the last segment of every row that has several, ``[rows, steps]``."""
    segments = segments_of(sample)
    return (segments == segments.amax(1, keepdim=True)) & (segments > 0) & sample.valid


def _moves(old: Tensor, new: Tensor, watch: Tensor) -> bool:
    """Any bit: what couples by nature does so everywhere, what leaks forwards leaves the earlier
    steps alone."""
    moved = bits_differ(old, new)
    return bool((moved.flatten(2).any(-1) if moved.ndim > 2 else moved)[watch].any())
