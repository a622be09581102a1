"""Parameter or input gradients differ between the modes.

Checks
    A random mix of the outputs of one long segment is differentiated through recurrent mode and
    through the step-by-step unroll, with respect to every parameter and input. Where the two
    differ, central finite differences in float64 decide whether recurrent mode's gradient is the
    derivative of what it computes.

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
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.checks.equivalence.mode_comparison import disagreement
from rnncheck.checks.evidence.constructed_batches import constructed, replayed_heads
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.observations import sizes
from rnncheck.checks.evidence.random_mix import mixed
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected, as_rows, needs_recurrence
from rnncheck.checks.rule import CouldNotLook, Deferred, Judgement, Observation, Rule
from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.pipeline.subject.heads import Constructed, lay_out
from rnncheck.pipeline.subject.passes import RunSettings, StartStates, run_recurrent, unroll_subject
from rnncheck.pipeline.subject.subject import Subject
from rnncheck.results.model import Severity, Stage

FLOAT_LIMIT = 2e-3  # relative to the tensor's largest gradient, where only float32 can be run
DOUBLE_LIMIT = 1e-7  # the same in float64: 1e8 times its rounding
NUMERIC_LIMIT = 1e-4  # finite differences of step 1e-6 in float64
_STEP = 1e-6


@dataclass(frozen=True)
class Gradients:
    """Gradients by name: parameters by their path, inputs by their key."""

    values: dict[str, Tensor]

    def largest(self) -> float:
        return max((float(v.abs().max()) for v in self.values.values()), default=0.0)


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
    piece = max(replayed_heads(evidence, subject)[0], key=lambda p: p.inputs.shape[1])
    made = lay_out([[piece]], subject.tile)
    dtype = torch.float64 if made.oracle is not None else None
    through_sequence = gradients(evidence, subject, made, dtype, recurrent=True)
    through_steps = gradients(evidence, subject, made, dtype, recurrent=False)
    if not through_sequence.values and not through_steps.values:
        raise CouldNotLook(f"nothing in the {subject.stage} has a gradient")
    count = len(through_steps.values)
    limit = DOUBLE_LIMIT if dtype is not None else FLOAT_LIMIT
    worst = furthest(through_sequence, through_steps)
    if worst is None or worst[1] <= limit:
        return None, count, f"{count} gradients agree"
    if dtype is not None and numeric_agrees(evidence, subject, made, through_sequence):
        return None, count, "recurrent mode's gradients agree with finite differences"
    if cut_every := truncation(evidence, subject, made):
        return None, count, f"back-propagation is cut every {cut_every} steps"
    return _observed(subject, made, worst, limit), count, ""


def gradients(
    evidence: Evidence,
    subject: Subject,
    made: Constructed,
    dtype: torch.dtype | None,
    *,
    recurrent: bool,
) -> Gradients:
    """Gradients of a random mix of the outputs, through one of the modes."""
    network = subject.copy(dtype)
    inputs = _leaves(subject, made.inputs, dtype)
    total = _objective(evidence, subject, made, network, inputs, dtype, recurrent=recurrent)
    trained = {n: p for n, p in network.named_parameters() if p.requires_grad}
    named = trained | {dotted(k): inputs.get(k) for k in _float_keys(subject, inputs)}
    if total is None:
        return Gradients({})
    grads = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    pairs = zip(named, grads, named.values(), strict=True)
    return Gradients({n: g if g is not None else torch.zeros_like(p) for n, g, p in pairs})


def _leaves(subject: Subject, inputs: TensorDictBase, dtype: torch.dtype | None) -> TensorDictBase:
    td = inputs.clone()
    for key in _float_keys(subject, inputs):
        value = td.get(key) if dtype is None else td.get(key).to(dtype)
        td.set(key, value.clone().requires_grad_())
    return td


def _float_keys(subject: Subject, inputs: TensorDictBase) -> list[Key]:
    keys = subject.changeable_inputs(inputs)
    return [key for key in keys if inputs.get(key).is_floating_point()]


def _objective(
    evidence: Evidence,
    subject: Subject,
    made: Constructed,
    network: nn.Module,
    inputs: TensorDictBase,
    dtype: torch.dtype | None,
    *,
    recurrent: bool,
) -> Tensor | None:
    if recurrent:
        batch = as_collected(subject, made.batch(subject, inputs))
        try:
            out = run_recurrent(
                subject, batch, module=network, settings=RunSettings(dtype=dtype, grad=True)
            )
        except Exception as error:
            raise CouldNotLook(
                f"recurrent mode raises on the {subject.stage} ({reason_of(error)})"
            ) from error
        rows: TensorDictBase = as_rows(out, made.starts.shape)
    else:
        states = StartStates(fresh={k: v[:, 0] for k, v in made.stored.items()})
        settings = RunSettings(dtype=dtype, grad=True)
        rows = unroll_subject(
            subject, inputs, made.starts, states, module=network, settings=settings
        )
    keys = comparable_outputs(evidence, subject, rows)
    return mixed(rows, keys, torch.ones_like(made.starts))


def furthest(left: Gradients, right: Gradients) -> tuple[str, float] | None:
    """The gradient that differs most, relative to its tensor's largest entry (and not below the
    overall scale)."""
    floor = 1e-6 * max(left.largest(), right.largest(), 1e-30)
    worst: tuple[str, float] | None = None
    for name in left.values.keys() & right.values.keys():
        a, b = left.values[name], right.values[name]
        scale = max(float(a.abs().max()), float(b.abs().max()), floor)
        size = float((a - b).abs().nan_to_num(nan=torch.inf).max()) / scale
        if worst is None or size > worst[1]:
            worst = (name, size)
    return worst


def numeric_agrees(
    evidence: Evidence, subject: Subject, made: Constructed, analytic: Gradients
) -> bool:
    """Whether central differences along three random directions give recurrent mode's own
    gradient."""
    for seed in (1, 2, 3):
        direction = _direction(analytic, seed)
        slope = sum(float((analytic.values[n] * d).sum()) for n, d in direction.items())
        up, down = (_shifted(evidence, subject, made, direction, s) for s in (_STEP, -_STEP))
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


def _shifted(
    evidence: Evidence,
    subject: Subject,
    made: Constructed,
    direction: dict[str, Tensor],
    step: float,
) -> float | None:
    network, inputs = subject.copy(torch.float64), made.inputs.clone()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in direction:
                parameter.add_(direction[name], alpha=step)
    for key in _float_keys(subject, inputs):
        if dotted(key) in direction:
            inputs.set(key, inputs.get(key).double() + step * direction[dotted(key)])
    total = _objective(evidence, subject, made, network, inputs, torch.float64, recurrent=True)
    return None if total is None else float(total)


def truncation(evidence: Evidence, subject: Subject, made: Constructed) -> int:
    """The length of deliberate truncation: every step reaches back inside its block of k > 1 steps;
    0 if not so."""
    reach = _reach(evidence, subject, made)
    if reach is None:
        return 0
    cuts = [t for t in range(1, len(reach)) if reach[t] == t]
    honest = all(begin == max([0, *[c for c in cuts if c <= t]]) for t, begin in enumerate(reach))
    lengths = [b - a for a, b in zip([0, *cuts], [*cuts, len(reach)], strict=False)]
    if not cuts or not honest or max(lengths) < 2 or cuts[0] < 2:
        return 0
    return cuts[0] if _exact_inside(evidence, subject, made, cuts) else 0


def _reach(evidence: Evidence, subject: Subject, made: Constructed) -> list[int] | None:
    """For every step the earliest step whose input still has a gradient in recurrent mode."""
    earliest = []
    for t in range(made.steps):
        grads = _step_gradients(evidence, subject, made, t, recurrent=True)
        if not grads:
            return None
        alive = torch.stack([g.flatten(2).abs().amax(-1)[0] for g in grads]).amax(0) > 0
        earliest.append(int(alive.nonzero()[0]) if bool(alive.any()) else t)
    return earliest


def _exact_inside(evidence: Evidence, subject: Subject, made: Constructed, cuts: list[int]) -> bool:
    """Inside the first block recurrent mode's gradient is the sequential one."""
    last = cuts[0] - 1
    left = _step_gradients(evidence, subject, made, last, recurrent=True)
    right = _step_gradients(evidence, subject, made, last, recurrent=False)
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in zip(left, right, strict=True))


def _step_gradients(
    evidence: Evidence, subject: Subject, made: Constructed, step: int, *, recurrent: bool
) -> list[Tensor]:
    inputs = _leaves(subject, made.inputs, None)
    only = torch.zeros_like(made.starts)
    only[:, step] = True
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
    leaves = [inputs.get(key) for key in _float_keys(subject, inputs)]
    if total is None or not leaves:
        return []
    grads = torch.autograd.grad(total, leaves, allow_unused=True)
    return [g for g in grads if g is not None]


def _observed(
    subject: Subject, made: Constructed, worst: tuple[str, float], limit: float
) -> Observation:
    name, size = worst
    return Observation(
        stage=subject.stage,
        message=f"the gradient of {name} through recurrent mode is not the one through the unroll",
        key=name,
        quantity=f"max difference of the gradient of {name}, relative to its largest entry",
        measured=size,
        on=sizes(made),
        bound=limit,
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
    severity=Severity.ERROR,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY,),
)
