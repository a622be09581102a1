"""The loss pairs every step with every other one: shapes like [20, 1] and [20] are broadcast.

Checks
    Arithmetic inside your own loss in which two tensors of as many steps are broadcast over each
    other, so that something of every step meets something of all the others. There one of both is
    given other numbers, once in their order and three times in another one. Where the gradients of
    the loss move with the numbers and not with their order (0.3 % of that at most), it does not
    matter to it which step a return, an advantage, an action or a log-probability belongs to.

Why it matters
    No error is raised. A value learns the mean return of the batch in place of its own, and an
    advantage says nothing about its action: the loss falls, and nothing is learned.

Says nothing when
    the loss is TorchRL's own, which compares the shapes; what was paired is masked, weighted or
    picked from step by step; both sides are one tensor, or one of them is no part of the batch; or
    both have as many dimensions, ``[:, None]`` and ``[None]``, which is written on purpose.

Fix
    Give both the same shape: ``value.squeeze(-1)``, or ``returns.unsqueeze(-1)``.

Example
    loss = (critic(hidden).squeeze(-1) - returns).pow(2).mean()   # not: critic(hidden) - returns
"""

from __future__ import annotations

from rnncheck.checks.evidence.crossed_steps import SAME, Paired, crossed_steps
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import each_sample, loss_of
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.guard.user_frames import read_frame
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Source, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """Every line of the loss that broadcasts steps over steps, on each batch until one is found."""
    if type(loss_of(evidence)).__module__.startswith("torchrl."):
        raise NotApplicable("the loss is TorchRL's, which compares the shapes itself")
    looked = 0
    for number, sample in each_sample(evidence):
        found = crossed_steps(evidence, sample)
        looked += found.looked
        if found.paired:
            told = tuple(_observed(number, one) for one in found.paired)
            return Judgement(told, found.looked)
    if not looked:
        raise NotApplicable("no arithmetic on tensors was seen in the loss")
    return Judgement((), looked, counted(looked, "operation", "keep steps apart"))


def _observed(number: int, one: Paired) -> Observation:
    crossing = one.crossing
    left, right = (str(list(shape)) for shape in crossing.shapes)
    place = crossing.place
    return Observation(
        message=f"the loss pairs every step with every other one: {left} meets {right}",
        quantity="how far gradients move where steps change places, of what other numbers move",
        measured=one.moved,
        on=f"training batch {number}, other numbers in {(left, right)[one.side]}, in four orders",
        bound=SAME,
        bound_formula="a share that rounding does not reach: each step has numbers of its own",
        where=Where((number,)),
        cause=f"{left} and {right} are broadcast to all pairs of {counted(crossing.size, 'step')}",
        fix="give both the same shape, with squeeze(-1) or unsqueeze(-1) on one of them",
        source=Source(
            place.path, place.line, 0, "python", "loss", read_frame(place.path, place.line)
        )
        if place.path
        else None,
    )


RULE = Rule(
    code="LS708",
    name="steps-broadcast",
    holds="the loss weighs every step by itself",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
