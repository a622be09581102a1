"""The gradient is below a fraction of its local size beyond k steps: the effective memory, with the
curve.

Checks
    For the longest episode head the size of the gradient of each output at the observation n steps
    earlier, averaged over the steps, relative to its size at the step itself.

Why it matters
    A policy whose gradient is gone after two steps cannot learn to remember for twenty, however
    long its slices are.

Says nothing when
    the heads are shorter than the horizon, nothing has a gradient, the policy reads tokens, which
    have none, what carries the state has no parameters, or the gradient reaches further.
    A memory that forgets fast is a choice: it is a warning, with the number of steps to compare
    with the task.

Fix
    Start with a forget-gate bias of 1, a smaller leak, or longer slices; or accept it if the task
    is short.

Example
    nn.init.constant_(lstm.lstm.bias_hh_l0[hidden : 2 * hidden], 1.0)
"""

from __future__ import annotations

import torch

from rnncheck.checks.evidence.constructed_batches import trained_head
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.random_mix import mixed
from rnncheck.checks.evidence.random_outputs import comparable_outputs
from rnncheck.checks.evidence.recurrent_pass import as_collected, as_rows, needs_recurrence
from rnncheck.checks.evidence.trained_memory import FIXED, has_fixed_memory
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics.difference import features
from rnncheck.pipeline.subject.passes import RunSettings, run_recurrent
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

_HORIZON = 4  # steps back
FRACTION = 1e-6  # of the local gradient


def run(evidence: Evidence) -> Judgement:
    """The policy's curve."""
    if not evidence.policy.carry:
        raise NotApplicable("the policy carries no state")
    needs_recurrence(evidence, evidence.policy)
    if has_fixed_memory(evidence.policy):
        raise NotApplicable(FIXED)
    curve = reach(evidence)
    if len(curve) <= _HORIZON:
        raise NotApplicable(f"no episode head is longer than {_HORIZON} steps")
    if not curve[0]:
        raise CouldNotLook("the policy's outputs have no gradient at its inputs")
    note = "gradient n steps back: " + ", ".join(f"{value / curve[0]:.1e}" for value in curve)
    if max(curve[_HORIZON:]) > FRACTION * curve[0]:
        return Judgement((), len(curve), note)
    if _reads_tokens(evidence):
        raise CouldNotLook("beside floats the policy reads tokens, which have no gradient")
    return Judgement((_observed(curve),), len(curve), note)


def _reads_tokens(evidence: Evidence) -> bool:
    """The env's spec knows integers that the policy reads."""
    read = evidence.policy.reads
    return any(not read or key in read for key in evidence.env.limits)


def reach(evidence: Evidence) -> list[float]:
    """Mean gradient size at n = 0, 1, 2, ... steps back, over the longest head."""
    subject = evidence.policy
    made, since = trained_head(evidence, subject)
    batch = made.batch(subject)
    keys = [k for k in subject.changeable_inputs(made.inputs) if batch.get(k).is_floating_point()]
    leaves = [batch.get(key).clone().requires_grad_() for key in keys]
    batch.update(dict(zip(keys, leaves, strict=True)))
    out = as_rows(
        run_recurrent(subject, as_collected(subject, batch), settings=RunSettings(grad=True)),
        batch.shape,
    )
    sums: list[list[float]] = [[] for _ in range(made.steps - since)]
    for step in range(since, made.steps):
        only = torch.zeros_like(made.starts)
        only[:, step] = True
        total = mixed(out, comparable_outputs(evidence, subject, out), only)
        if total is None or not leaves:
            return [0.0] * len(sums)
        found = torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
        size = sum(features(g).abs().amax(-1)[0] for g in found if g is not None)
        for back in range(step - since + 1):
            sums[back].append(float(size[step - back]) if isinstance(size, torch.Tensor) else 0.0)
    return [sum(values) / max(1, len(values)) for values in sums]


def _observed(curve: list[float]) -> Observation:
    reached = max(n for n, value in enumerate(curve) if value > FRACTION * curve[0])
    return Observation(
        message=f"the policy's gradient reaches {reached} steps back, not {_HORIZON}",
        quantity="steps back at which the gradient is above 1e-6 of its local size",
        measured=float(reached),
        on=f"an episode head of {counted(len(curve), 'step')}",
        bound=float(_HORIZON),
        bound_formula=f"at least {_HORIZON} steps",
        cause="gates that close, a short leak, or a graph that is cut on purpose",
        fix=(
            "check it against the task's horizon; open the forget gates if it is to remember longer"
        ),
        details={"relative gradient": ", ".join(f"{value / curve[0]:.1e}" for value in curve)},
    )


RULE = Rule(
    code="GR805",
    name="short-horizon",
    holds="gradients reach far back",
    severity=Severity.WARNING,
    stage=Stage.POLICY,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
