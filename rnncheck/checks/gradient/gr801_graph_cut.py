"""No gradient reaches earlier steps of the segment.

Checks
    What the recurrent modules give inside the loss is noted while the loss runs on a training
    batch. The gradient of their outputs at every second step of the slices is taken at their
    inputs: in some pass of each module that the loss trains it must not be zero at the steps in
    between, one step earlier. Which steps a pass runs over is found by changing them; passes of one
    step each are taken together. Layers of torch that the loss calls step by step must not be
    handed each of their own states without a graph. Where no module can be watched, the gradient of
    the loss at the batch must change with what is observed later. The same is asked of policy and
    critic alone, in recurrent mode (as the loss runs it, where that is another function) over the
    head of an episode, where a nudge of the earlier inputs does move the later outputs; where no
    module can be watched there, of their outputs at what is observed.

Why it matters
    With the graph cut at every step the recurrent weights learn from one step only: the policy
    carries a memory that it never learns to use.

Says nothing when
    the loss runs no recurrent module that can be seen, slices have a single step, or nothing has a
    gradient there. A graph that is cut every k-th step, k > 1, on purpose passes. Recurrent modules
    without a trained parameter get a warning, those that read tokens nothing: tokens have no
    gradient. Where the unroll alone has the gradient, EQ205 says so, and where the steps of a row
    do not follow one another, RP502. What carries the state may have no parameters at all, as a
    reservoir has none.

Fix
    Run the policy in recurrent mode inside the loss, and do not detach the state between steps.

Example
    with set_recurrent_mode(True): out = policy(batch)     # one graph over the slice
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rnncheck.checks.evidence.batch_isolation import segments_of
from rnncheck.checks.evidence.burn_in_by_loss import positions
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.handed_states import cut_layer
from rnncheck.checks.evidence.loss_calls import (
    copied,
    each_sample,
    loss_of,
    needs_memory_inside,
    run_loss,
)
from rnncheck.checks.evidence.traced_steps import Shown, steps_of_passes
from rnncheck.checks.evidence.trained_memory import (
    AS_OBSERVED,
    FIXED,
    has_fixed_memory,
    needs_memory,
    remembers_the_given,
)
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.gradient.loss_graph import gradient_reaches_back
from rnncheck.checks.gradient.through_time import reaches_back, reads_tokens
from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
)
from rnncheck.pipeline.instruments.module_calls import ModuleCall, ModuleCalls
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.pipeline.subject.training_pass import TwoPasses
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

_Group = list[tuple[ModuleCall, Shown]]


def run(evidence: Evidence) -> Judgement:
    """Every pass with a graph in every training batch, then policy and critic alone."""
    needs_memory(evidence)
    within = _in_the_loss(evidence)
    if within.findings and remembers_the_given(evidence):
        raise NotApplicable(AS_OBSERVED)
    alone = _alone(evidence)
    if not within.compared + alone.compared and has_fixed_memory(*evidence.subjects):
        raise NotApplicable(FIXED)
    if within.findings and not alone.findings:
        return within
    if alone.findings or not within.unanswered:
        return replace(alone, compared=within.compared + alone.compared, unanswered=())
    if alone.compared and _is_the_loss(evidence.policy):
        return alone
    nothing_inside = all(isinstance(why, NotApplicable) for why in within.unanswered)
    return alone if nothing_inside else within


def _is_the_loss(subject: Subject) -> bool:
    """What is judged as the recurrent pass is the one that the loss runs."""
    return isinstance(subject.module, TwoPasses) and subject.module.of_the_loss


def _in_the_loss(evidence: Evidence) -> Judgement:
    compared = 0
    try:
        loss_of(evidence)
        for number, sample in each_sample(evidence):
            cut = cut_inside(evidence, sample)
            back = gradient_reaches_back(evidence, sample) if cut is None else not cut
            layer = cut_layer(evidence, sample) if back is not False else None
            if back is None and layer is None:
                continue
            compared += 1
            if back is False or layer:
                needs_memory_inside(evidence, sample)
                if evidence.finds("RP502"):  # a start flag may stand between any two of them
                    raise Deferred("the steps of a row do not follow one another", "RP502")
                via = _through(cut, layer)
                return Judgement((_observed_in_loss(number, sample, via),), compared)
        if not compared:
            raise CouldNotLook(
                "of no recurrent module in the loss is it known which steps it runs over, and the"
                " gradient at the batch does not tell"
            )
    except Unanswered as why:
        return Judgement((), unanswered=(why,))
    return Judgement((), compared)


def _through(output: str | None, layer: str | None) -> str:
    if layer:
        return f" through {layer}, which the loss hands its states without a graph"
    return f" through the recurrent module that writes {output}" if output else ""


def _alone(evidence: Evidence) -> Judgement:
    """Policy and critic in recurrent mode."""
    compared, untold = 0, list[Unanswered]()
    for subject in (evidence.policy, evidence.stepped_critic):
        if subject is None or not subject.carry:
            continue
        try:
            back, trained = reaches_back(evidence, subject)
            if not back and evidence.finds("EQ205"):
                raise Deferred("recurrent mode's gradients are not the unroll's", "EQ205")
        except Unanswered as why:
            untold.append(why)
            continue
        compared += 1
        if not back:
            severity = Severity.ERROR if trained else Severity.WARNING
            return Judgement((_observed_alone(subject),), compared, severity=severity)
    note = "gradients reach earlier steps"
    return Judgement((), compared, note, unanswered=() if compared else tuple(untold))


def cut_inside(evidence: Evidence, sample: Sample) -> str | None:
    """The output of a recurrent module that no pass has a gradient one step back for; empty where
    every module has one, None where none has a gradient at the step itself.

    Where the loss trains some of the modules, they are judged; else one of all is enough.
    """
    with ModuleCalls(probing=True) as inside:
        total = run_loss(evidence, sample, loss=copied(loss_of(evidence)), per_element=False).total
    groups = _unrolled(inside.passes, steps_of_passes(evidence, sample, inside.passes))
    told = [(group, back) for group in groups if (back := _goes_back(group, sample)) is not None]
    if not told:
        return None
    trained = [(group, back) for group, back in told if _trains(group, total)]
    judged = trained or told
    reaching = {id(group[0][0].module) for group, back in judged if back}
    cut = [group for group, _ in judged if id(group[0][0].module) not in reaching]
    if cut and (trained or not reaching):
        return dotted(cut[0][0][0].output)
    return ""


def _goes_back(group: _Group, sample: Sample) -> bool | None:
    """Whether the passes have a gradient one step back; None where they have none at the step
    itself."""
    local, earlier = False, False
    for parity in (1, 0):
        at = (positions(sample) % 2 == parity) & sample.valid & sample.follows
        before = torch.zeros_like(at)
        before[:, :-1] = at[:, 1:]
        for one, grad in _gradients(group, at) if _shows_both(group, at, before) else ():
            here = bool((grad * at.unsqueeze(-1) != 0).any())
            local = local or (here and not reads_tokens(one))
            earlier = earlier or bool((grad * before.unsqueeze(-1) != 0).any())
    return earlier if local or earlier else None


def _trains(group: _Group, total: Tensor) -> bool:
    """The loss has a gradient at what the passes read: they are none of a target."""
    probes = [one.probe for one, _ in group if one.trained and one.probe is not None]
    if not probes or not total.requires_grad:
        return False
    grads = torch.autograd.grad(total, probes, retain_graph=True, allow_unused=True)
    return any(grad is not None and bool((grad != 0).any()) for grad in grads)


def _unrolled(passes: list[ModuleCall], told: list[Shown | None]) -> list[_Group]:
    """The passes whose steps are known; those of a module that is called step by step together."""
    groups = dict[int, _Group]()
    for number, (one, steps) in enumerate(zip(passes, told, strict=True)):
        if steps is not None and one.probe is not None and one.y.requires_grad:
            whole = bool((steps.has[:, :, 1:] & steps.has[:, :, :-1]).any())
            key = -number - 1 if whole else id(one.module)
            groups.setdefault(key, []).append((one, steps))
    return list(groups.values())


def _shows_both(group: _Group, at: Tensor, before: Tensor) -> bool:
    """Both some step and the one before it are among the group's."""
    has = torch.stack([steps.has.any(0) for _, steps in group]).any(0)
    return bool(((has & at)[:, 1:] & (has & before)[:, :-1]).any())


def _gradients(group: _Group, at: Tensor) -> list[tuple[ModuleCall, Tensor]]:
    """The gradient of the group's outputs at ``at`` with respect to the inputs of each pass,
    ``[blocks, rows, steps, features]``."""
    total = torch.zeros(())
    for one, steps in group:
        given = steps.laid_out(one.y)
        draw = torch.randn(given.shape, generator=torch.Generator().manual_seed(4))
        total = total + (given * draw.to(given.dtype) * at.unsqueeze(-1)).sum()
    probes = [one.probe for one, _ in group if one.probe is not None]
    grads = torch.autograd.grad(total, probes, retain_graph=True, allow_unused=True)
    return [
        (one, steps.laid_out(grad))
        for (one, steps), grad in zip(group, grads, strict=True)
        if grad is not None
    ]


def _observed_in_loss(number: int, sample: Sample, via: str) -> Observation:
    return _observed(
        f"inside the loss no gradient reaches the step before{via}: the graph is cut at every step",
        on=(
            f"training batch {number},"
            f" {counted(int(segments_of(sample).max()) + 1, 'segment')} in a row"
        ),
        cause=(
            "the graph is cut at every step: sequential mode in the loss, or a state that is"
            " detached"
        ),
        fix=(
            "run the network in recurrent mode inside the loss, or hand its state on, without"
            " detach() between steps"
        ),
        stage=Stage.LOSS,
    )


def _observed_alone(subject: Subject) -> Observation:
    return _observed(
        f"the {subject.stage} in recurrent mode: no gradient reaches the step before, though a"
        " nudge of what came before moves the output",
        on="the longest head of an episode",
        cause="the state is detached at every step, in both modes",
        fix=(
            "carry the state from step to step without detach(); cut only every k-th step, k > 1,"
            " on purpose"
        ),
        stage=subject.stage,
    )


def _observed(message: str, *, on: str, cause: str, fix: str, stage: Stage) -> Observation:
    return Observation(
        stage=stage,
        message=message,
        quantity="steps back that a gradient reaches",
        measured=0.0,
        on=on,
        bound=1.0,
        bound_formula="at least one",
        cause=cause,
        fix=fix,
    )


RULE = Rule(
    code="GR801",
    name="graph-cut",
    holds="gradients reach earlier steps",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY,),
)
