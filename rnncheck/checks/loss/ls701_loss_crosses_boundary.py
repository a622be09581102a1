"""A change in one segment changes another's per-element loss, target or gradient.

Checks
    The observations of every other segment of the training batch are changed. For the segments that were not touched
    every per-step entry that the loss writes, its terms before reduction, the next values and targets that it asks
    of its value estimator must stay the same to the last bit, and so must the gradient of the total loss at their
    observations (up to rounding). What couples backwards in time in the memoryless twin (every step marked as a
    start) is the nature of the loss and is not blamed.

Why it matters
    DQNLoss and every loss that evaluates the next state through ``step_mdp`` call the target network on a next
    tensordict whose ``is_init`` is false everywhere: with slices laid end to end the target of one slice depends on
    the slice before it.

Says nothing when
    the batch itself joins steps without marks (RP501, RP502, RP506), or the policy leaks already (BD301).

Fix
    Give the next state the same cuts as the root: ``batch["next", "is_init"] = batch["is_init"].clone()`` between
    ``sample()`` and the loss (the spec's ``batch`` factory). A replay transform is too early: it runs before
    SliceSampler's marks are written.

Example
    def make_batch(data, **kw): data["next", "is_init"] = data["is_init"].clone(); return data
"""

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
    each_sample,
    loss_of,
    memoryless,
    run_loss,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.evidence.unmarked_joins import crosses
from rnncheck.checks.rule import Judgement, Rule, Vacuous
from rnncheck.numerics.difference import bits_differ
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.pipeline.subject.subject import next_key, run_recurrent
from rnncheck.results.model import Finding, Severity, Stage, Where

ORDER = ("forward", "next value", "target")  # the earliest part that leaks names the finding


def run(evidence: Evidence) -> Judgement:
    """Per-element quantities, then the gradient."""
    loss_of(evidence)
    if crosses(evidence):
        raise Vacuous("the batch joins steps without a mark (RP501, RP502, RP506)")
    compared, alive = 0, False
    for number, sample in each_sample(evidence):
        if int(segments_of(sample).max()) < 1:
            continue
        if policy_leaks(evidence, sample):
            raise Vacuous("the policy itself lets the batch's segments mix (BD301, BD305)")
        found, lively = loss_leaks(evidence, sample)
        compared += int(sample.valid.sum())
        alive = alive or lively
        if found:
            return Judgement((_finding(evidence, sample, number, found),), compared)
    if not compared:
        raise Vacuous("every row of the training batches is a single segment")
    if not alive:
        raise Vacuous("no change of the observations changes the loss")
    return Judgement((), compared, f"{compared} steps of the loss are isolated")


def policy_leaks(evidence: Evidence, sample: Sample) -> bool:
    """Whether the policy's own recurrent pass mixes the segments of this batch."""
    subject = evidence.policy

    def outputs(td: TensorDictBase) -> dict[str, Tensor]:
        batch = td.select(*[key for key in tensor_keys(td) if key[0] != "next"])
        out = run_recurrent(subject, batch).reshape(sample.rows.shape)
        return {".".join(k): out.get(k) for k in tensor_keys(out) if k in subject.writes}

    try:
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
    """States that a pass leaves in the batch: they are inputs of the next pass, not parts of the loss."""
    carry = sample.steps.recording.subject.carry
    return name in {"written " + ".".join(key) for k in carry for key in (k, next_key(k))}


def _without_twin(
    evidence: Evidence, sample: Sample, found: list[Leak], elements: Elements
) -> list[Leak]:
    """The leaks that are not the loss's nature.

    What couples samples by nature (a mean, a normalisation) couples them in the memoryless twin, and backwards in
    time as well: earlier segments change with the last one. A pass that ignores its marks only leaks forwards.
    """
    if not found:
        return []
    last = last_segments(sample)

    changed = changed_batch(sample, last, observed(evidence, sample))
    twin = without_memory(elements)
    base, after = (twin(memoryless(sample, td)) for td in (sample.td, changed))
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
    """Any bit: what couples by nature does so everywhere, what leaks forwards leaves the earlier steps alone."""
    moved = bits_differ(old, new)
    return bool((moved.flatten(2).any(-1) if moved.ndim > 2 else moved)[watch].any())


def _finding(evidence: Evidence, sample: Sample, number: int, found: list[Leak]) -> Finding:
    first = min(found, key=lambda leak: _rank(leak.name))
    d = first.difference
    names = ", ".join(leak.name for leak in found)
    through_next = any(leak.name in ("next value", "target") for leak in found)
    return Finding(
        code="LS701",
        stage=Stage.LOSS,
        message=f"a change in one segment changes the {first.name} of {first.count} steps of others",
        key=first.name,
        quantity=f"change of the {first.name} of segments that were not touched",
        measured=d.worst,
        on=f"training batch {number}, {int(segments_of(sample).max()) + 1} segments in a row",
        bound=0.0,
        bound_formula="isolation is bitwise, for what is isolated in the memoryless twin",
        passing_bound=d.worst,
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause="the loss evaluates the next state over the whole batch with is_init false everywhere (step_mdp)"
        if through_next
        else "a recurrent pass inside the loss does not see the batch's start flags",
        fix='set batch["next", "is_init"] = batch["is_init"].clone() between sample() and the loss (a batch factory; '
        "replay transforms run before the slices are marked), so that the next state is cut where the root is",
        source=evidence.pipeline.source(Stage.LOSS),
        details={"parts that leak": names},
    )


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


RULE = Rule(
    code="LS701",
    name="loss-crosses-boundary",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
