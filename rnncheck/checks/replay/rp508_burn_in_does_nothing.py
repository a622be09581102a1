"""A burn-in leaves the state as it was.

Checks
    What the slices spend on their state is found by experiment: the replay transforms and the
    ``batch`` factory run again on a sample whose first steps, which they leave out, were observed
    differently. The state at the start of what remains must change with it, and not with the very
    last of these steps alone. Of a loss that leaves first steps out the same is asked of its value.

Why it matters
    A burn-in is there because the stored states are stale or zero. Where it does nothing, the batch
    starts from just these, and the steps are thrown away.

Says nothing when
    nothing burns in: no BurnInTransform runs, and no recurrent module runs on just the steps that
    are left out. Slices that are cut shorter and keep their stored states are none. States that do
    not depend on what is observed cannot tell.

Fix
    Burn in in recurrent mode, with the modules that carry the state; take the state from
    ``("next", key)`` of the last step, and write it into the batch that is returned. A
    BurnInTransform that a spec names by ``use`` is given the policy (and critic) in recurrent mode,
    unless it says ``recurrent_mode: false``.

Example
    with set_recurrent_mode(True):
        batch = BurnInTransform(modules=[lstm], burn_in=8)(sample.reshape(-1, 32))
"""

from __future__ import annotations

from rnncheck.checks.evidence.burn_in_by_loss import burn_in, opens_with_stored, reaches
from rnncheck.checks.evidence.burn_in_by_maker import MODE, SEQUENTIAL, WarmUp, warm_ups
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import each_sample
from rnncheck.checks.evidence.training_batches import samples
from rnncheck.checks.rule import Judgement, NotApplicable, Observation, Rule, Unanswered, weightiest
from rnncheck.pipeline.keys import dotted
from rnncheck.pipeline.subject.subject import Carrier
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Source, Stage

IDLE = "the state at the start of what remains is the one that was stored"


def run(evidence: Evidence) -> Judgement:
    """What makes the batches, then the loss."""
    compared, untold = 0, list[Unanswered]()
    samples(evidence)  # where there are none, their absence is the reason
    for one in warm_ups(evidence):
        try:
            finding = _judged(evidence, one)
        except Unanswered as why:
            untold.append(why)
            continue
        if finding is not None:
            return Judgement((finding,), compared + 1)
        compared += len(one.reached)
    finding, counted = _loss(evidence)
    if finding is not None:
        return Judgement((finding,), compared + 1)
    if compared + counted:
        return Judgement((), compared + counted, "the steps that are left out open the rest")
    raise weightiest(untold) or NotApplicable("nothing burns states in")


def _judged(evidence: Evidence, one: WarmUp) -> Observation | None:
    """The finding for one maker; None where its burn-in works or it has none."""
    burns = bool(one.ready_made) or one.ran
    if not one.openings:
        return _not_used(evidence, one)
    if not one.can:
        raise NotApplicable("no state in the batch depends on the steps that are left out")
    if not one.reached:
        return _idle(evidence, one) if burns else None
    for carrier in evidence.policy.carriers:
        kept = [k for k in carrier.keys if k in one.can - one.reached]
        if kept and len(kept) < len(carrier.keys):
            return _partly(evidence, one, carrier)
    return None if one.deep else _last_only(evidence, one)


def _not_used(evidence: Evidence, one: WarmUp) -> Observation | None:
    """A BurnInTransform ran, and no slice lost a step."""
    if not one.whole:
        raise NotApplicable("every slice that lost steps goes on with another trajectory")
    steps = max(one.ready_made)
    cause = "burn_in is 0" if steps == 0 else "its result is not what the loss gets"
    return _observed(
        evidence,
        one,
        message=f"a BurnInTransform of {counted(steps, 'step')} leaves the batch as it was",
        cause=cause,
        fix="set burn_in to the number of steps, and return what the transform returns",
    )


def _idle(evidence: Evidence, one: WarmUp) -> Observation:
    return _observed(
        evidence,
        one,
        message=(
            f"{counted(one.spent, 'step of each slice', 'are')} burned in, and none of them"
            f" reaches the state: {IDLE}"
        ),
        cause=(
            "its modules carry no state, its keys are others than the policy's, it works on a copy,"
            " or the state is taken from the root instead of ('next', key)"
        ),
        fix=(
            "give it the module that carries the state, and write ('next', key) of its last step"
            " into the batch"
        ),
    )


def _partly(evidence: Evidence, one: WarmUp, carrier: Carrier) -> Observation:
    kept = ", ".join(dotted(k) for k in carrier.keys if k not in one.reached)
    burned = ", ".join(dotted(k) for k in carrier.keys if k in one.reached)
    return _observed(
        evidence,
        one,
        message=(
            f"the burn-in writes {burned} and leaves {kept} of the same module as it was stored"
        ),
        key=kept,
        cause="its out_keys, or the copying by hand, leave a state out",
        fix="write every state of the module, at the same step",
    )


def _last_only(evidence: Evidence, one: WarmUp) -> Observation:
    return _observed(
        evidence,
        one,
        message=(
            f"{counted(one.spent, 'step of each slice', 'are')} burned in, and only the last of"
            " them counts"
        ),
        counting=1.0,
        cause=SEQUENTIAL,
        fix=MODE,
    )


def _loss(evidence: Evidence) -> tuple[Observation | None, int]:
    """A loss that leaves first steps out and then starts from nothing that they changed, or the
    last one alone."""
    if evidence.pipeline.loss is None:
        return None, 0
    for number, sample in each_sample(evidence)[:1]:
        steps = burn_in(evidence, sample)
        if reaches(evidence, sample):
            deep = steps < 2 or reaches(evidence, sample, but=1)
            return (None if deep else _in_loss(number, steps, 1)), 1
        if steps and not opens_with_stored(evidence, sample):
            return _in_loss(number, steps, 0), 1
    return None, 0


def _in_loss(number: int, steps: int, counting: int) -> Observation:
    cause = "the pass over the rest starts from a state that is neither stored nor burned in"
    fix = "start it from ('next', key) of the last step that is left out"
    said = "only the last of them" if counting else "none of them"
    return Observation(
        stage=Stage.LOSS,
        message=(
            f"the loss leaves out the first {counted(steps, 'step of each slice')}, and {said}"
            " reaches it through the memory"
        ),
        quantity="steps left out whose observations change the loss",
        measured=float(counting),
        on=f"training batch {number}",
        bound=float(steps),
        bound_formula="every step that is burned in",
        cause=SEQUENTIAL if counting else cause,
        fix=MODE if counting else fix,
    )


def _observed(
    evidence: Evidence,
    one: WarmUp,
    *,
    message: str,
    cause: str,
    fix: str,
    key: str = "",
    counting: float = 0.0,
) -> Observation:
    return Observation(
        message=message,
        key=key or ", ".join(dotted(k) for k in evidence.policy.carry),
        quantity="steps left out whose observations change the state",
        measured=counting,
        on=f"{counted(len(one.openings), 'slice')} of the first training batch",
        bound=float(one.spent),
        bound_formula="every step that is burned in",
        cause=cause,
        fix=fix,
        source=_source(evidence, one),
    )


def _source(evidence: Evidence, one: WarmUp) -> Source:
    pipeline = evidence.pipeline
    if one.maker.name == "batch" and pipeline.batch_source is not None:
        return pipeline.batch_source
    return pipeline.source(Stage.REPLAY)


RULE = Rule(
    code="RP508",
    name="burn-in-does-nothing",
    holds="the burn-in makes the state",
    severity=Severity.WARNING,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.REPLAY),
)
