"""The loss is the memoryless policy's.

Checks
    The observations in the first half of every slice of the training batch are changed. In the
    second half some per-step entry of the loss, or the gradient of the loss at the observations,
    must change; where none does, the same is asked one step further on, for a loss that parts its
    slices in the middle. A loss that reads next observations alone, as a world model's does, is
    asked by these. Of a loss that tells neither, such as one that reads arrays, the pass that
    it makes is asked. Layers of torch that the loss trains and calls step by step must be given
    other states than zero. Beside a pass that remembers, a loss of your own must train none of a
    recurrent module that takes each step alone.

Why it matters
    A loss that runs the policy in sequential mode takes every step alone, from the state stored
    beside it: nothing is learnt through time, and the stored states grow stale.

Says nothing when
    the loss gives nothing per step, has no gradient at the observations, and its pass was not seen;
    slices have a single step, no module carries state (WR101), or the critic alone does and the
    loss does not run it.

Fix
    Run the policy inside the loss under ``set_recurrent_mode(True)``; TorchRL's own losses do.

Example
    with set_recurrent_mode(True): out = policy(batch)
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import input_gradients, observed, segments_of, tokens
from rnncheck.checks.evidence.burn_in_by_loss import cropped
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.handed_states import layer_without_state
from rnncheck.checks.evidence.loss_calls import (
    Loss,
    changed_batch,
    copied,
    each_sample,
    loss_of,
    needs_memory_inside,
    run_loss,
)
from rnncheck.checks.evidence.traced_steps import (
    GRADIENT_AT,
    inner_gradients,
    inner_outputs,
    of_pass,
    steps_inside,
)
from rnncheck.checks.evidence.trained_memory import needs_memory
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Judgement, Observation, Rule
from rnncheck.numerics.difference import bits_differ, features
from rnncheck.pipeline.keys import Key, dotted, tensor_items
from rnncheck.pipeline.subject.passes import run_recurrent
from rnncheck.pipeline.subject.training_pass import TwoPasses
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

_SHOWN = 0.5  # share of the changed steps that a pass over what is observed there shows


def run(evidence: Evidence) -> Judgement:
    """Change first halves, look at second halves."""
    loss, compared = loss_of(evidence), 0
    needs_memory(evidence)
    for number, sample in each_sample(evidence):
        layer = layer_without_state(evidence, sample)
        if layer is not None:
            return Judgement((_without_state(number, sample, layer),), compared)
        skip = cropped(evidence, sample)
        later = _second_halves(sample, skip)
        if not bool(later.any()):
            continue
        changed, watched = reaches_later(evidence, sample, loss, later)
        behind = _second_halves(sample, skip, 1)  # the loss may part slices in the middle
        if watched and not changed and bool(behind.any()):
            changed, _ = reaches_later(evidence, sample, loss, behind)
        if not changed and _reads_next_alone(evidence, sample, loss):
            changed, watched = reaches_later(evidence, sample, loss, later, following=True)
        if not watched:
            continue
        compared += int(later.sum())
        if not changed:
            needs_memory_inside(evidence, sample)
            return Judgement((_observed(number, sample),), compared)
        forgets = _forgetful_pass(evidence, sample, later)
        if forgets is not None:
            return Judgement((_beside(number, sample, forgets),), compared)
    if not compared:
        raise CouldNotLook("the loss gives nothing per step, or every slice has a single step")
    return Judgement((), compared, counted(compared, "later step", "depend on earlier ones"))


def _forgetful_pass(evidence: Evidence, sample: Sample, later: Tensor) -> str | None:
    """What a recurrent module gives in a pass that is trained and takes each step alone, beside
    one that remembers, in a loss of the user's own."""
    if type(loss_of(evidence)).__module__.startswith("torchrl."):
        return None
    keys = _observations(evidence, sample, following=False)
    base, after = (
        inner_outputs(evidence, sample, td)
        for td in (sample.td, changed_batch(sample, ~later, keys))
    )
    if base.keys() != after.keys():
        return None
    moved = {name: features(bits_differ(one, after[name])).any(-1) for name, one in base.items()}
    reads = dict[str, bool]()  # of a pass that shows steps several times, whether a part remembers
    earlier = _ahead_of(sample, later)
    for name, steps in moved.items():
        if bool(steps[earlier].double().mean() > _SHOWN):
            reads[of_pass(name)] = reads.get(of_pass(name), False) | bool((steps & later).any())
    able = {name for name, has in steps_inside(evidence, sample).items() if _runs_on(has, later)}
    alone = [name for name, remembers in reads.items() if not remembers and name in able]
    if not alone or not any(reads.values()):
        return None
    grads = inner_gradients(evidence, sample, sample.td)
    reached = {of_pass(name) for name, value in grads.items() if bool(value.any())}
    return next((name for name in alone if GRADIENT_AT + name in reached), None)


def _ahead_of(sample: Sample, later: Tensor) -> Tensor:
    """Steps ``[rows, steps]`` of the segments that have ``later`` ones, ahead of these."""
    segments, found = segments_of(sample), torch.zeros_like(later)
    for row in range(len(later)):
        own = segments[row][later[row]].unique()
        found[row] = torch.isin(segments[row], own) & ~later[row] & sample.valid[row]
    return found


def _runs_on(has: Tensor, later: Tensor) -> bool:
    """Whether a pass that shows the steps ``[rows, steps]`` runs from an earlier one to a later one
    of some row: not where a loop calls its cell for each step, or chunks begin anew."""
    return bool(((has & later).any(1) & (has & ~later).any(1)).any())


def _beside(number: int, sample: Sample, name: str) -> Observation:
    return Observation(
        message=(
            f"one pass inside the loss, that of {name}, takes each step alone, beside one that"
            " remembers"
        ),
        key=name,
        quantity="later steps of it that depend on earlier ones",
        measured=0.0,
        on=f"training batch {number}, {tuple(sample.td.shape)}",
        bound=1.0,
        bound_formula="at least one",
        cause="it runs in sequential mode: each step alone, from the state stored beside it",
        fix="run it under set_recurrent_mode(True) as well",
    )


def _second_halves(sample: Sample, skip: int = 0, further: int = 0) -> Tensor:
    """Steps in the second half of what their segment has of data, behind its first ``skip`` steps;
    without the first ``further`` of them."""
    segments, mask = segments_of(sample), torch.zeros_like(sample.valid)
    for row in range(mask.shape[0]):
        for number in segments[row].unique().tolist():
            own = ((segments[row] == number) & sample.valid[row]).nonzero()[:, 0]
            first = min(skip, len(own))
            mask[row, own[first + (len(own) - first + 1) // 2 + further :]] = True
    return mask


def _reads_next_alone(evidence: Evidence, sample: Sample, loss: Loss) -> bool:
    """Whether the loss takes what is observed behind the first step of a row from the next steps
    alone, as a world model does, and one that makes T+1 steps of them."""
    batches, behind = [sample.td], sample.valid.clone()
    behind[:, 0] = False
    for following, steps in ((False, behind), (True, sample.valid)):
        keys = _observations(evidence, sample, following=following)
        batches.append(changed_batch(sample, steps, keys))
    still, here, there = (
        float(run_loss(evidence, sample, td, loss=copied(loss), per_element=False).total.detach())
        for td in batches
    )
    return still == here != there


def _observations(evidence: Evidence, sample: Sample, *, following: bool) -> list[Key]:
    keys = [key for key in observed(evidence, sample) if (key[0] == "next") == following]
    given = () if following else tokens(evidence, sample)
    return [*keys, *(key for key in given if key not in keys)]


def reaches_later(
    evidence: Evidence, sample: Sample, loss: Loss, later: Tensor, *, following: bool = False
) -> tuple[bool, bool]:
    """Whether anything later changes, and whether there was anything to look at. ``following``: by
    what is observed next, at steps whose next one is no later one."""
    keys, earlier = _observations(evidence, sample, following=following), ~later
    if not keys:
        raise CouldNotLook("nothing of what the policy observes could be changed in the batch")
    if following:
        earlier[:, :-1] &= ~later[:, 1:]
    after_td = changed_batch(sample, earlier, keys)
    watched = False
    seen = map(sample.td.get, observed(evidence, sample))
    floats = any(value.is_floating_point() for value in seen)
    for measure in (_elements, _gradients, _inside, _passed):
        if watched and (measure is _passed or (measure is _inside and floats)):
            continue
        before, after = (measure(evidence, sample, loss, td) for td in (sample.td, after_td))
        for name, old in before.items():
            if measure is _gradients and ("next." in name) != following:
                continue
            if name not in after or after[name].shape != old.shape:
                continue
            watched = watched or bool((old != 0).any())
            if bool(bits_differ(old, after[name])[later].any()):
                return True, True
    return False, watched


def _elements(
    evidence: Evidence, sample: Sample, loss: Loss, td: TensorDictBase
) -> dict[str, Tensor]:
    return run_loss(evidence, sample, td, loss=copied(loss)).elements


def _gradients(
    evidence: Evidence, sample: Sample, loss: Loss, td: TensorDictBase
) -> dict[str, Tensor]:
    return input_gradients(
        evidence, sample, td,
        lambda b: run_loss(evidence, sample, b, loss=copied(loss), per_element=False).total,
    )  # fmt: skip


def _inside(
    evidence: Evidence, sample: Sample, loss: Loss, td: TensorDictBase
) -> dict[str, Tensor]:
    """What recurrent modules give inside the loss, where it tells nothing per step: it observes
    tokens, which have no gradient, or joins what it observes without one."""
    return inner_outputs(evidence, sample, td)


def _passed(
    evidence: Evidence, sample: Sample, loss: Loss, td: TensorDictBase
) -> dict[str, Tensor]:
    """What the pass that the loss makes gives, where the loss itself tells nothing: it may read
    its observations as arrays."""
    subject = evidence.policy
    if not (isinstance(subject.module, TwoPasses) and subject.module.of_the_loss):
        return {}
    try:
        out = run_recurrent(subject, td)
    except Exception:  # the user's function may raise anything; EQ201 tells of that
        return {}
    return {
        dotted(key): value
        for key, value in tensor_items(out)
        if key in subject.writes and key[0] != "next" and value.is_floating_point()
    }


def _without_state(number: int, sample: Sample, layer: str) -> Observation:
    return Observation(
        message=f"inside the loss {layer} is called step by step, every time from a state of zero",
        key=layer,
        quantity="states other than zero that it is given",
        measured=0.0,
        on=f"training batch {number}, {tuple(sample.td.shape)}",
        bound=1.0,
        bound_formula="at least one",
        cause="what the layer gives at a step is not handed on to the next",
        fix="give each call the state that the one before it left, cleared where an episode begins",
    )


def _observed(number: int, sample: Sample) -> Observation:
    return Observation(
        message="earlier steps of a slice change nothing that the loss computes at later ones",
        quantity="later steps that depend on earlier ones",
        measured=0.0,
        on=f"training batch {number}, {tuple(sample.td.shape)}",
        bound=1.0,
        bound_formula="at least one",
        cause=(
            "the policy runs in sequential mode inside the loss: each step alone, from its stored"
            " state"
        ),
        fix="run the policy under set_recurrent_mode(True) inside the loss",
    )


RULE = Rule(
    code="LS703",
    name="loss-ignores-memory",
    holds="the loss remembers",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
