"""A change in one segment changes another's value, target or advantage.

Checks
    The observations and rewards of every other segment of the batches that the estimator gets are
    changed; each row of a [B, T] batch begins one. Values, targets and advantages of the segments
    in between must stay the same up to the rounding of a sum over the row. A statistic of the batch
    (advantages less their mean, over their deviation) is no leak: it couples segments in both
    directions in the memoryless twin as well (every step marked as a start), and moves and scales
    all of them alike, or does not ask in which order they stand. A leak behind a normalisation does
    neither. Where TorchRL's own estimator gets a reward for each agent, that of one agent must not
    change the estimates of another.

Why it matters
    An advantage that depends on another episode is noise with a sign.

Says nothing when
    every batch is one row with one segment, the policy or critic leak by themselves (BD301), or the
    estimator raises (VL605).

Fix
    Use TorchRL's estimators under ``set_recurrent_mode(True)``, and pass done flags and ``is_init``
    through. A sum of one's own stops at every end and at every row's end.

Example
    with set_recurrent_mode(True): gae(batch)
"""

from __future__ import annotations

from rnncheck.checks.evidence.batch_isolation import Leak, layout, neighbours
from rnncheck.checks.evidence.coupling import ROWS
from rnncheck.checks.evidence.estimator_calls import batches, estimator_of
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.checks.value.estimator_isolation import estimator_leaks, rewards_run_on
from rnncheck.checks.value.joined_agents import joins_agents
from rnncheck.numerics.difference import Difference
from rnncheck.pipeline.compat import installed, joins_rows
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """Every batch of the estimator."""
    estimator_of(evidence)
    compared, alive = 0, False
    for number, sample in enumerate(batches(evidence)):
        if (joined := joins_agents(evidence, sample)) is not None:
            return Judgement((_of_agents(number, *joined),), int(sample.valid.sum()))
        if not neighbours(sample):
            continue
        found, lively = estimator_leaks(evidence, sample)
        compared += int(sample.valid.sum())
        alive = alive or lively
        if found:
            return Judgement((_observed(evidence, sample, number, found),), compared)
    if not compared:
        raise NotApplicable("no batch of the estimator has two segments")
    if not alive:
        raise CouldNotLook("no change of the observations or the rewards changes the estimates")
    return Judgement((), compared, counted(compared, "step", "are isolated"))


def _of_agents(number: int, name: str, difference: Difference) -> Observation:
    return Observation(
        message=f"the reward of one agent changes the {name} of another",
        key=name,
        quantity=f"change of {name} of agents whose rewards were not touched",
        measured=difference.worst,
        on=f"batch {number}",
        bound_formula="none beyond 1e-5 of the largest entry",
        where=Where((number, difference.row), difference.step, difference.feature),
        cause="the estimator sums over the agents of a step, and not over its steps",
        fix=(
            "give it the dimension of time (time_dim: 1 of [envs, steps, agents]; without it, it is"
            " the batch's last one), and done flags in the shape of the rewards"
        ),
    )


def _observed(evidence: Evidence, sample: Sample, number: int, found: list[Leak]) -> Observation:
    first = min(found, key=lambda leak: ("value" not in leak.name, leak.name.count(".")))
    d = first.difference
    cause, fix = _blame(evidence, sample, first)
    return Observation(
        message=(
            f"a change in one segment changes the {first.name} of"
            f" {counted(first.count, 'step of others')}"
        ),
        key=first.name,
        quantity=f"change of {first.name} of segments that were not touched",
        measured=d.worst,
        on=f"batch {number}, {layout(sample)}",
        bound_formula=(
            "none beyond 1e-5 of the largest entry, for what is no statistic of the batch"
        ),
        where=Where((number, d.row), d.step, d.feature, first_step=d.first_step),
        cause=cause,
        fix=fix,
        details={
            "what changes": ", ".join(leak.name for leak in found),
            "runs on between": first.between,
        },
    )


def _blame(evidence: Evidence, sample: Sample, first: Leak) -> tuple[str, str]:
    """Cause and fix: TorchRL's own where its estimator joins the rows, else the user's."""
    d = first.difference
    if d.row and d.first_step == 0 and joins_rows(evidence.pipeline.estimator):
        return (
            (
                f"with shifted=True torchrl {installed().public} joins the rows, and a row that"
                " starts in mid-episode continues the row before it"
            ),
            (
                "give the estimator deactivate_vmap=True instead of shifted=True, or install"
                " torchrl 0.13 or newer"
            ),
        )
    if first.paid or rewards_run_on(evidence, sample):
        return (
            f"the sum of rewards goes on from one of the {first.between} to the next",
            (
                'stop it at the end of every row and where batch["next", "done"] is true:'
                " total = delta[t] + gamma * lmbda * (~done[t]).float() * total"
            ),
        )
    if first.between == ROWS:
        return (
            "the estimator joins the rows of the batch: a recurrent pass, a shift by one step or a"
            " sum over steps runs on from the end of a row to the next row",
            "keep the batch's shape [rows, steps], time last",
        )
    return (
        "the next value runs on over a start, or the sum of rewards over an end",
        (
            "run the estimator in recurrent mode, with starts marked and ends done; a pass of your"
            " own over the next steps needs the root's start flags:"
            ' batch["next", "is_init"] = batch["is_init"].clone()'
        ),
    )


RULE = Rule(
    code="VL601",
    name="target-crosses-boundary",
    holds="no trajectory reaches another's estimates",
    severity=Severity.ERROR,
    stage=Stage.ADVANTAGE,
    run=run,
    needs=(Stage.POLICY, Stage.ADVANTAGE),
)
