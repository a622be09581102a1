"""Parameter or input gradients differ between the modes.

Checks
    A random mix of the outputs of one long segment is differentiated through recurrent mode and
    through the step-by-step unroll, with respect to every parameter and input; a mix of the states
    at its end, where the outputs' gradients are nothing but rounding. What a gradient moves by when
    parameters and inputs move by some roundings is not counted. Where the two differ, central
    finite differences in float64 decide whether recurrent mode's gradient is the derivative of what
    it computes.

Why it matters
    Right values with wrong gradients train another policy. A detached state, a graph cut at every
    step, a reset by multiplication with a stale mask cannot be seen in any output.

Says nothing when
    the modes' values differ already (EQ201), the module has no recurrent mode or nothing has a
    gradient. Truncated back-propagation, a cut at every k-th step with k > 1, is a choice and
    passes; so does a sequential mode that detaches its state.

Fix
    Do not detach the state inside the recurrent pass, nor read the stored one in the middle of a
    segment.

Example
    h = cell(x[..., t, :], h)          # not h.detach(), unless every k-th step on purpose
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from rnncheck.checks.equivalence.mode_comparison import disagreement
from rnncheck.checks.equivalence.mode_gradients import (
    Asked,
    Gradients,
    beyond,
    float_keys,
    furthest,
    gradients,
    leaves,
    objective,
    rounding,
)
from rnncheck.checks.evidence.constructed_batches import constructed, trained_head
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.observations import sizes
from rnncheck.checks.evidence.random_mix import mixed
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected, as_rows, needs_recurrence
from rnncheck.checks.rule import CouldNotLook, Deferred, Judgement, Observation, Rule
from rnncheck.numerics.difference import features
from rnncheck.pipeline.instruments.held_parameters import constant_without_graph
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.subject.passes import RunSettings, StartStates, run_recurrent, unroll_subject
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.pipeline.subject.training_pass import TwoPasses
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

FLOAT_LIMIT = 2e-3  # relative to the tensor's largest gradient, where only float32 can be run
DOUBLE_LIMIT = 1e-7  # the same in float64: 1e8 times its rounding
NUMERIC_LIMIT = 1e-4  # finite differences of step 1e-6 in float64
_STEP = 1e-6


def run(evidence: Evidence) -> Judgement:
    """Policy and critic."""
    findings: list[Observation] = []
    compared, notes = 0, list[str]()
    for subject in evidence.subjects:
        needs_recurrence(evidence, subject)
        found, count, note = _judge(evidence, subject)
        findings += [found] if found else []
        compared += count
        notes.append(note)
    return Judgement(tuple(findings), compared, "; ".join(dict.fromkeys(notes)))


def _judge(evidence: Evidence, subject: Subject) -> tuple[Observation | None, int, str]:
    """The finding of one subject, the gradients compared, and a note."""
    if disagreement(evidence, subject, constructed(evidence, subject))[0] is not None:
        raise Deferred("the values differ already", "EQ201")
    made, since = trained_head(evidence, subject)
    dtype = torch.float64 if made.oracle is not None else None
    outputs = Asked(evidence, subject, made, dtype, since=since)
    found = _compared(outputs)
    if found is None and evidence.finds("EQ202"):
        raise Deferred("the outputs have no gradient, and the end states differ", "EQ202")
    found = found or _compared(outputs.of_states())
    if found is not None and found[0] is not None and trains_apart(subject):
        found = _without_heads(outputs) or found
    if found is None:
        raise CouldNotLook(f"no gradient of the {subject.stage} is more than rounding")
    return found


def _without_heads(asked: Asked) -> tuple[Observation | None, int, str] | None:
    """What the rest tells, where some heads are parted from the memory in training: an actor of an
    encoder that its critic trains. None where there is no such head."""
    rest = asked.of_the_memory()
    found = _compared(rest) if rest.without else None
    if found is None or found[0] is not None:
        return None
    said = f"{counted(len(rest.without), 'head is', 'heads are')} trained on a detached memory"
    return None, found[1], f"{found[2]}; {said}"


def trains_apart(subject: Subject) -> bool:
    """Whether the pass is that of a loss whose parts are trained one by one."""
    return isinstance(subject.module, TwoPasses) and subject.module.trains_apart


def _compared(asked: Asked) -> tuple[Observation | None, int, str] | None:
    """What the two modes' gradients tell; None where there is nothing but rounding to compare."""
    through_sequence = gradients(asked, recurrent=True)
    through_steps = gradients(asked, recurrent=False)
    count, limit = len(through_steps.values), _limit(asked)
    if not (through_sequence.finite() or through_steps.finite()):
        raise Deferred(f"the {asked.subject.stage}'s gradients are no numbers", "CL409", "GR802")
    if not max(through_sequence.largest(), through_steps.largest()):
        return None
    if not count:
        return None, *_by_differences(asked, through_sequence)
    worst = furthest(through_sequence, through_steps)
    if worst is None or worst[1] <= limit:
        return None, count, counted(count, "gradient", "agree")
    noise = rounding(asked, through_sequence, through_steps)
    if not beyond(through_sequence, noise) and not beyond(through_steps, noise):
        return None
    worst = furthest(through_sequence, through_steps, noise)
    if worst is None or worst[1] <= limit:
        return None, count, f"{counted(count, 'gradient', 'agree')}, some in being rounding alone"
    if asked.dtype is not None and numeric_agrees(asked, through_sequence):
        return None, count, "recurrent mode's gradients agree with finite differences"
    if cut_every := truncation(asked):
        return None, count, f"back-propagation is cut every {cut_every} steps"
    return _observed(asked, worst), count, ""


def _by_differences(asked: Asked, through_sequence: Gradients) -> tuple[int, str]:
    """Recurrent mode's gradients, where sequential mode computes none, as under ``no_grad``: they
    are right where they are the derivatives of values that both modes have."""
    if asked.dtype is not None and numeric_agrees(asked, through_sequence):
        said = "sequential mode has none, and recurrent mode's agree with finite differences"
        return len(through_sequence.values), said
    raise CouldNotLook(
        "sequential mode computes no gradient (torch.no_grad inside it), and recurrent mode's could"
        " not be compared with finite differences"
    )


def _limit(asked: Asked) -> float:
    return DOUBLE_LIMIT if asked.dtype is not None else FLOAT_LIMIT


def numeric_agrees(asked: Asked, analytic: Gradients) -> bool:
    """Whether central differences along three random directions give recurrent mode's own
    gradient."""
    for seed in (1, 2, 3):
        direction = _direction(analytic, seed)
        slope = sum(float((analytic.values[n].cpu() * d).sum()) for n, d in direction.items())
        up, down = (_shifted(asked, direction, s) for s in (_STEP, -_STEP))
        if up is None or down is None:
            return False
        numeric = (up - down) / (2 * _STEP)
        scale = max(abs(slope), abs(numeric), 1e-6 * analytic.largest())
        if not abs(slope - numeric) <= NUMERIC_LIMIT * scale:
            return False
    return True


def _direction(analytic: Gradients, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for name, value in analytic.values.items()
    }


def _shifted(asked: Asked, direction: dict[str, Tensor], step: float) -> float | None:
    network, inputs = asked.subject.copy(torch.float64), asked.made.inputs.clone()
    burnt = asked.subject.burnt_alone
    kept = {n: one.detach().clone() for n, one in network.named_parameters() if burnt}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in direction:
                parameter.add_(direction[name].to(parameter.device), alpha=step)
    for key in float_keys(asked.subject, inputs):
        if dotted(key) in direction:
            value = inputs.get(key).double()
            along = direction[dotted(key)].to(value.device).clone()
            along[:, :burnt] = 0
            inputs.set(key, value + step * along)
    with constant_without_graph(network, kept):
        total = objective(asked, network, inputs, recurrent=True)
    return None if total is None else float(total)


def truncation(asked: Asked) -> int:
    """The length of deliberate truncation: every step reaches back inside its block of k > 1 steps;
    0 if not so."""
    reach = _reach(asked)
    if reach is None:
        return 0
    cuts = [t for t in range(1, len(reach)) if reach[t] == t]
    honest = all(begin == max([0, *[c for c in cuts if c <= t]]) for t, begin in enumerate(reach))
    lengths = [b - a for a, b in zip([0, *cuts], [*cuts, len(reach)], strict=False)]
    if not cuts or not honest or max(lengths) < 2 or not (cuts[0] > 1 or _regular(lengths)):
        return 0
    return max(lengths) if _exact_inside(asked, cuts[0] - 1) else 0


def _regular(lengths: list[int]) -> bool:
    """Blocks of one length, of which the first and the last may be shorter."""
    inner = set(lengths[1:-1])
    return len(lengths) > 3 and len(inner) == 1 and max(lengths) == max(inner)


def _reach(asked: Asked) -> list[int] | None:
    """For every step the earliest step whose input still has a gradient in recurrent mode."""
    earliest = []
    for t in range(asked.made.steps - asked.since):
        grads = _step_gradients(asked, t, recurrent=True)
        if not grads:
            return None
        alive = torch.stack([features(g).abs().amax(-1)[0] for g in grads]).amax(0) > 0
        earliest.append(int(alive.nonzero()[0]) if bool(alive.any()) else t)
    return earliest


def _exact_inside(asked: Asked, last: int) -> bool:
    """Inside the first block recurrent mode's gradient is the sequential one."""
    left = _step_gradients(asked, last, recurrent=True)
    right = _step_gradients(asked, last, recurrent=False)
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in zip(left, right, strict=True))


def _step_gradients(asked: Asked, step: int, *, recurrent: bool) -> list[Tensor]:
    """Of one of the steps that are asked for, at all of these."""
    evidence, subject, made = asked.evidence, asked.subject, asked.made
    inputs = leaves(subject, made.inputs, None)
    only = torch.zeros_like(made.starts)
    only[:, asked.since + step] = True
    network = subject.copy()
    select: Callable[[TensorDictBase], Tensor | None] = lambda rows: mixed(  # noqa: E731
        rows, comparable_outputs(evidence, subject, rows), only
    )
    if recurrent:
        batch = as_collected(subject, made.batch(subject, inputs))
        out = run_recurrent(subject, batch, module=network, settings=RunSettings(grad=True))
        total = select(as_rows(out, made.starts.shape))
    else:
        states = StartStates(fresh={k: v[:, 0] for k, v in made.stored.items()})
        settings = RunSettings(grad=True)
        total = select(
            unroll_subject(subject, inputs, made.starts, states, module=network, settings=settings)
        )
    dense = [inputs.get(key) for key in float_keys(subject, inputs)]
    if total is None or not dense:
        return []
    grads = torch.autograd.grad(total, dense, allow_unused=True)
    return [g[:, asked.since :] for g in grads if g is not None]


def _observed(asked: Asked, worst: tuple[str, float]) -> Observation:
    name, size = worst
    return Observation(
        stage=asked.subject.stage,
        message=f"the gradient of {name} through recurrent mode is not the one through the unroll",
        key=name,
        quantity=f"max difference of the gradient of {name}, relative to its largest entry",
        measured=size,
        on=sizes(asked.made),
        bound=_limit(asked),
        bound_formula="relative to the largest gradient of the tensor",
        cause="the recurrent pass detaches the state or reads a stored one inside a segment",
        fix=(
            "carry the state through the segment without detach(); cut only every k-th step, k > 1,"
            " on purpose"
        ),
    )


RULE = Rule(
    code="EQ205",
    name="gradients-disagree",
    holds="both modes give the same gradients",
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
