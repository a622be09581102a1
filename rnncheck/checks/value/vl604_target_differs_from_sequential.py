"""The target is not the one of the sequential unroll with the true states.

Checks
    Every collected trajectory is replayed alone, step by step, and the value at each step noted.
    The values and next values that the estimator writes, and the next values that a loss asks of
    its value estimator, are held against them, at steps that do not end an episode. Behind the last
    recorded step the value is that of its next observation, from the state that it left. In a twin
    without memory, where the value of a step depends on that step alone, the target of a step must
    not move with the observation of its own step in the place of the next one's; one to which what
    a target network gives is added must move with something observed behind the step. One that sums
    several rewards must there reach one step further than the last of them. Values that are taken
    at the greedy actions of another network must move with the same steps as these. Where no values
    are written, each recurrent pass inside the loss is run again from the true states, whatever
    order it has its steps in; a pass of torch's own layers over the next steps is held against the
    one over the steps, and that of a target network over the same steps, with the same weights,
    against it as well. Behind a loss's own burn-in the pass over the next steps must not be
    further from the sequential run than twice what the burn-in leaves of the steps themselves.
    Behind one that was run on the batch it must not begin with zeros where the steps do not.
    Where a sampler has cut a row inside an episode and marks its last step as done, a loss whose
    targets use what is observed next must use it there as well.
    Where a loss, or an estimator of the user's own, values what is observed next by calls that
    cannot be seen, at every step or behind a row's last one alone, it must move with every state
    that was left there. It must not move with the state ahead of that step instead. Estimates of
    the user's own that move with what is observed next, and with nothing that was observed before,
    must move with the states that were left there. Nor may the value behind a row's last step, by a
    pass of a network with a memory over that alone, start from the state that the row began with,
    or from zeros; nor be that of the step itself: what an end there takes away from the targets of
    the twin moves with what is observed next.

Why it matters
    A target that starts from a zero state in the middle of a trajectory is another function than
    the one that is learned; how long it is off depends on how fast the memory fades.

Says nothing when
    the loss or estimator leaks already (LS701, VL601), its target network has other weights, no
    trajectory was collected from its start, or the target hardly moves with what is observed at
    all. Nor of a world model, which predicts rewards out of what is observed next and makes no
    target, or of an own estimator in which nothing carries state. Nor where the passes of torch's
    own layers over the steps and over the next steps both begin with zeros.

Fix
    A loss: give it a network that puts the collected ``("next", h)`` back after its pass, for
    TorchRL's losses overwrite it in their root pass, and the next state the root's start flags; or
    leave the first steps out of the loss (burn-in). An estimator: evaluate T+1 steps in one pass
    (``shifted=True``) under ``set_recurrent_mode(True)``, and run a critic before it on
    ``batch.copy()`` only.

Example
    class KeepsNext(TensorDictSequential):
        def forward(self, td):
            following = td["next"].copy() if "next" in td else None
            td = super().forward(td)
            return td if following is None else td.set("next", following)
    batch["next", "is_init"] = batch["is_init"].clone()
    DQNLoss(KeepsNext(*policy), ...)(batch)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from torch import Tensor

from rnncheck.checks.evidence.burn_in_by_loss import burn_in, positions, warms_up
from rnncheck.checks.evidence.burn_in_by_maker import APPROXIMATED, approximated, working
from rnncheck.checks.evidence.estimator_calls import VALUE, batches, estimated, made_by, value_key
from rnncheck.checks.evidence.evidence import Evidence, recorded_error
from rnncheck.checks.evidence.left_out import (
    OF_THE_ESTIMATOR,
    estimator_leaves_out,
    needs_sequence,
)
from rnncheck.checks.evidence.loss_calls import each_sample, run_loss
from rnncheck.checks.evidence.loss_isolation import loss_leaks, policy_leaks
from rnncheck.checks.evidence.loss_passes import from_true_states
from rnncheck.checks.evidence.next_passes import next_passes, twin_passes
from rnncheck.checks.evidence.training_batches import Sample
from rnncheck.checks.rule import (
    CouldNotLook,
    Deferred,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
    weightiest,
)
from rnncheck.checks.value.cut_ends import cut_short
from rnncheck.checks.value.estimates import Values, dropped, ended, per_step, true_values
from rnncheck.checks.value.estimator_isolation import estimator_leaks
from rnncheck.checks.value.estimator_passes import inner_passes
from rnncheck.checks.value.greedy_actions import greedy_of_another_step
from rnncheck.checks.value.held_values import against, fading, since_start
from rnncheck.checks.value.last_of_own import last_values_of_own_steps
from rnncheck.checks.value.last_pass import last_values_from_elsewhere, last_values_from_the_pass
from rnncheck.checks.value.last_values import (
    last_values_from_states,
    last_values_one_early,
    next_values_without_state,
)
from rnncheck.checks.value.n_step import bootstraps_early
from rnncheck.checks.value.own_values import values_of_own_steps
from rnncheck.checks.value.said_of_targets import CAUSES, FIXES, for_own_losses, of_own_layers
from rnncheck.checks.value.same_step import own_step, reads_nothing_next
from rnncheck.checks.value.states_in_networks import last_values_from_held_states
from rnncheck.checks.value.terminal_targets import PREDICTED, predicts_rewards_alone
from rnncheck.checks.value.valued_elsewhere import last_values_of_another_step
from rnncheck.pipeline.instruments.value_targets import same_targets
from rnncheck.pipeline.keys import Key, as_key, dotted
from rnncheck.pipeline.subject.subject import next_key
from rnncheck.results.model import Severity, Stage, Where

_LIMIT = 1e-4  # relative to the largest value
_INSIDE = 1e-3  # relative to the largest output of the recurrent module
LASTING = 0.5  # of the largest difference: a burn-in on purpose leaves less behind than that
_NAMES = ("chosen_action_value", VALUE)


def run(evidence: Evidence) -> Judgement:
    """What the estimator writes, then what the loss asks for."""
    compared, untold = 0, list[Unanswered]()
    if not evidence.written(Stage.ADVANTAGE, Stage.LOSS):
        raise NotApplicable("the spec has neither an advantage nor a loss stage")
    for look in (_estimator, _estimator_inside, _loss, _inside, _twins):
        try:
            finding, count = look(evidence)
        except Unanswered as why:
            untold.append(why)
            continue
        compared += count
        if finding is not None:
            return Judgement((for_own_losses(evidence, finding),), compared)
    for told in (
        own_step,
        greedy_of_another_step,
        values_of_own_steps,
        bootstraps_early,
        last_values_one_early,
        next_values_without_state,
        last_values_from_elsewhere,
        last_values_of_own_steps,
        last_values_of_another_step,
        cut_short,
    ):
        if (found := told(evidence)) is not None:
            return Judgement((found,), compared)
    if not compared and reads_nothing_next(evidence):
        raise NotApplicable("the loss reads nothing of what is observed next")
    if not compared and not evidence.written(Stage.ADVANTAGE) and predicts_rewards_alone(evidence):
        raise NotApplicable(PREDICTED)
    if not compared:
        compared = last_values_from_states(evidence) or last_values_from_the_pass(evidence)
        compared = compared or last_values_from_held_states(evidence)
    if not compared:
        raise weightiest(untold) or NotApplicable("nothing asks for a next value")
    return Judgement((), compared, _said(evidence, compared))


def _said(evidence: Evidence, compared: int) -> str:
    said = f"{compared} values are the sequential run's"
    if evidence.pipeline.loss is None:
        return said
    warm = any(warms_up(evidence, sample) for _, sample in each_sample(evidence))
    return said + (", as near to it as the loss's burn-in brings the steps" if warm else "")


def _estimator(evidence: Evidence) -> tuple[Observation | None, int]:
    compared, estimated_on = 0, batches(evidence)
    key = value_key(evidence)
    if made_by(evidence) and not _writes(evidence, key):
        raise NotApplicable("the estimator is the user's own, and writes no value by that name")
    values = true_values(evidence, key)
    for number, sample in enumerate(estimated_on):
        if estimator_leaks(evidence, sample)[0]:
            raise Deferred("the estimates cross segments already", "VL601")
        if approximated(evidence, sample):
            raise NotApplicable(APPROXIMATED)
        out = per_step(evidence, sample, sample.td)
        pairs = ((dotted(key), False), (dotted(next_key(key)), True))
        for name, following in pairs:
            if name not in out:
                continue
            gaps, mask, scale = against(sample, out[name], values, following=following)
            mask &= since_start(evidence, sample, key, following=following)
            mask &= ~dropped(evidence, sample)
            gaps = gaps * mask
            compared += int(mask.sum())
            bound = _limit(evidence) * scale
            if bool((gaps > bound).any()):
                found = _observed(Stage.ADVANTAGE, sample, number, name, gaps, bound)
                behind = following and _behind_rows(sample, gaps > bound)
                return _without_hand_over(found) if behind else found, compared
    return None, compared


def _limit(evidence: Evidence, least: float = _LIMIT) -> float:
    """Relative: the states that the values are made from are rounded as those who acted were."""
    return max(least, recorded_error(evidence))


def _writes(evidence: Evidence, key: Key) -> bool:
    subjects = (one for one in (evidence.critic, evidence.policy) if one is not None)
    return any(key in one.writes for one in subjects)


def _behind_rows(sample: Sample, beyond: Tensor) -> bool:
    """Whether the batch has the next step of none of these: their next values are no entries of a
    pass over rows."""
    return not bool((beyond[:, :-1] & sample.follows[:, 1:]).any())


def _without_hand_over(found: Observation) -> Observation:
    """Of next values that differ behind the last step of a row alone."""
    return replace(
        found,
        message=(
            f"behind the last step of a row the {found.key} is not the one of the sequential run"
            " with the true states"
        ),
        cause=(
            "the critic was run on the last next observation from another state than the row had"
            " come to: one that is not handed on is taken for zeros"
        ),
        fix=(
            'run it on batch[:, -1]["next"] with the state entries there, or over T+1 steps in one'
            " pass (shifted=True)"
        ),
    )


def _estimator_inside(evidence: Evidence) -> tuple[Observation | None, int]:
    """Passes inside the estimator, which need not write their values: what their recurrent modules
    give."""
    compared = 0
    for number, sample in enumerate(batches(evidence)):
        if estimator_leaks(evidence, sample)[0]:
            raise Deferred("the estimates cross segments already", "VL601")
        if approximated(evidence, sample):
            raise NotApplicable(APPROXIMATED)
        for one in inner_passes(evidence, sample):
            mask = one.mask & since_start(evidence, sample, one.key, following=one.following)
            gaps = one.gaps * (mask & ~ended(sample, "done") if one.following else mask)
            compared += int(mask.sum())
            bound = _limit(evidence, _INSIDE) * one.scale
            if bool((gaps > bound).any()):
                found = _observed(Stage.ADVANTAGE, sample, number, one.name, gaps, bound)
                last = one.following and _behind_rows(sample, gaps > bound)
                return _without_hand_over(found) if last else found, compared
    if not compared and made_by(evidence) and estimator_leaves_out(evidence):
        raise NotApplicable(OF_THE_ESTIMATOR)
    if not compared and made_by(evidence):
        finding, compared = _layers_of_the_estimator(evidence)
        if finding is not None:
            return finding, compared
    if not compared:
        raise CouldNotLook("no recurrent pass over the steps could be seen inside the estimator")
    return None, compared


def _layers_of_the_estimator(evidence: Evidence) -> tuple[Observation | None, int]:
    """Torch's own layers in an estimator of the user's, which no tensordict tells the states of."""
    compared = 0
    for number, sample in enumerate(batches(evidence)):
        for one in next_passes(evidence, sample, partial(estimated, evidence)):
            gaps, bound = one.gaps * one.mask, _limit(evidence, _INSIDE) * one.scale
            beyond = bool((gaps > bound).any())
            if beyond and not one.from_zero:
                name = f"{one.name} for the next step"
                found = _observed(Stage.ADVANTAGE, sample, number, name, gaps, bound)
                return of_own_layers(found), compared
            compared += 0 if beyond else int(one.mask.sum())
    return None, compared


def _loss(evidence: Evidence) -> tuple[Observation | None, int]:
    loss, compared = evidence.pipeline.loss, 0
    if loss is None:
        raise NotApplicable("the spec has no loss")
    if not same_targets(loss):
        raise CouldNotLook("the target network has other weights than the trained one")
    for number, sample in each_sample(evidence):
        seen = run_loss(evidence, sample).elements.get("next value")
        if seen is None:
            raise NotApplicable("the loss asks no value estimator for a next value")
        values = _values(evidence)
        if policy_leaks(evidence, sample) or loss_leaks(evidence, sample)[0]:
            raise Deferred("the loss crosses segments already", "LS701")
        if approximated(evidence, sample):
            raise NotApplicable(APPROXIMATED)
        gaps, mask, scale = against(sample, seen, values, following=True)
        mask &= positions(sample) >= burn_in(evidence, sample)
        gaps = gaps * mask
        compared += int(mask.sum())
        bound = _limit(evidence) * scale
        if bool((gaps > bound).any()):
            name = "next value"
            return _observed(Stage.LOSS, sample, number, name, gaps, bound), compared
    return None, compared


def _inside(evidence: Evidence) -> tuple[Observation | None, int]:
    """Passes inside the loss: what their recurrent modules give, against what they give from the
    true states."""
    needs_sequence(evidence)
    compared = 0
    for number, sample in each_sample(evidence):
        if policy_leaks(evidence, sample) or loss_leaks(evidence, sample)[0]:
            raise Deferred("the loss crosses segments already", "LS701")
        warmed = warms_up(evidence, sample)  # then the batch may hold states that this has left
        if warmed and not working(evidence):
            found, count = _behind_burn_in(evidence, sample, number)
            compared += count
            if found is not None:
                return found, compared
            if not count:  # a zero start fades on purpose; RP508 judges it
                raise NotApplicable(APPROXIMATED)
            continue
        if approximated(evidence, sample):
            return _from_approximated(evidence)
        for one in from_true_states(evidence, sample, recorded=warmed):
            counted = one.mask & (positions(sample) >= burn_in(evidence, sample))
            compared += int(counted.sum())
            seen = one.gaps * counted
            worst, bound = float(seen.max()), _limit(evidence, _INSIDE) * one.scale
            if worst > bound and worst > LASTING * float(one.gaps.max()):
                found = _observed(Stage.LOSS, sample, number, one.name, seen, bound)
                return _from_zero(found) if one.from_zero else found, compared
    if not compared:
        return _of_layers(evidence)
    finding, count = _beside(evidence)
    return finding, compared + count


def _from_approximated(evidence: Evidence) -> tuple[Observation | None, int]:
    """Behind a burn-in that was run on the batch: where the steps begin with what that has left,
    the next steps do not begin with zeros."""
    compared = 0
    for number, sample in each_sample(evidence):
        for one in next_passes(evidence, sample):
            gaps, bound = one.gaps * one.mask, _INSIDE * one.scale
            beyond = bool((gaps > bound).any())
            if beyond and one.drops:
                return _observed(Stage.LOSS, sample, number, one.name, gaps, bound), compared
            compared += 0 if beyond else int(one.mask.sum())
    if not compared:
        raise NotApplicable(APPROXIMATED)
    return None, compared


def _beside(evidence: Evidence) -> tuple[Observation | None, int]:
    """Torch's own layers in a loss of the user's, beside modules whose passes tell."""
    if type(evidence.pipeline.loss).__module__.startswith("torchrl."):
        return None, 0
    try:
        return _of_layers(evidence)
    except Unanswered:
        return None, 0


def _twins(evidence: Evidence) -> tuple[Observation | None, int]:
    """A target network's pass over the very steps of the trained one's, from another state."""
    if type(evidence.pipeline.loss).__module__.startswith("torchrl."):
        return None, 0
    compared = 0
    for number, sample in each_sample(evidence):
        for one in twin_passes(evidence, sample):
            mask = one.mask & (positions(sample) >= burn_in(evidence, sample))
            gaps, bound = one.gaps * mask, _INSIDE * one.scale
            if bool((gaps > bound).any()):
                return _observed(Stage.LOSS, sample, number, one.name, gaps, bound), compared
            compared += 0 if one.from_zero else int(mask.sum())
    return None, compared


def _of_layers(evidence: Evidence) -> tuple[Observation | None, int]:
    """The same of torch's own layers, which no tensordict tells the states of: a pass over the next
    steps against the one over the steps."""
    compared = 0
    for number, sample in each_sample(evidence):
        for one in next_passes(evidence, sample):
            mask = one.mask & (positions(sample) >= burn_in(evidence, sample))
            gaps = one.gaps * mask
            beyond = bool((gaps > (bound := _INSIDE * one.scale)).any())
            if beyond and not one.from_zero:
                return _observed(Stage.LOSS, sample, number, one.name, gaps, bound), compared
            if beyond:
                raise NotApplicable(
                    "the passes over the steps and over the next steps both begin with zeros: the"
                    " second lacks the first step, as such targets mostly do"
                )
            compared += int(mask.sum())
    if not compared:
        raise CouldNotLook("no pass over the next steps could be seen inside the loss")
    return None, compared


def _behind_burn_in(
    evidence: Evidence, sample: Sample, number: int
) -> tuple[Observation | None, int]:
    """Where the loss warms its states up: next steps behind that are no further from the true
    states than the steps themselves, or are still on their way to them."""
    compared, counted = 0, positions(sample) >= burn_in(evidence, sample)
    passes = [p for p in from_true_states(evidence, sample, recorded=True) if p.collected]
    left = dict[str, float]()
    for one in passes:
        if not one.following and bool((one.mask & counted).any()):
            left[one.output] = max(left.get(one.output, 0.0), float((one.gaps * counted).max()))
    for one in passes:
        if not one.following or one.output not in left:
            continue
        seen, worst = one.gaps * counted, float((one.gaps * counted).max())
        compared += int((one.mask & counted).sum())
        bound = _limit(evidence, _INSIDE) * one.scale
        lasts = worst > max(bound, LASTING * float(one.gaps.max()))
        if lasts and LASTING * worst > left[one.output]:
            return _observed(Stage.LOSS, sample, number, one.name, seen, bound), compared
    return None, compared


def _from_zero(found: Observation) -> Observation:
    """Of a pass that read nothing but zeros for its states."""
    return replace(
        found,
        cause="every state that the pass starts from is zero",
        fix=(
            "let the pass start from the states that were collected, ('next', state) for a pass"
            " over the next steps; or leave the first steps out of the loss (burn-in)"
        ),
    )


def _values(evidence: Evidence) -> Values:
    own = getattr(getattr(evidence.pipeline.loss, "tensor_keys", None), "value", VALUE)
    for name in (as_key(own), *_NAMES):
        try:
            return true_values(evidence, name)
        except Unanswered:
            continue
    raise CouldNotLook("neither critic nor policy writes a value that could be compared")


def _observed(
    stage: Stage,
    sample: Sample,
    number: int,
    name: str,
    gaps: Tensor,
    bound: float,
) -> Observation:
    row, step = divmod(int(gaps.argmax()), gaps.shape[1])
    worst = float(gaps.max())
    beyond = gaps > bound
    return Observation(
        stage=stage,
        message=f"the {name} is not the one of the sequential run with the true states",
        key=name,
        quantity=f"max abs difference of the {name} and the sequential run's",
        measured=worst,
        on=f"batch {number}, {int(beyond.sum())} of {beyond.numel()} steps beyond the bound",
        bound=bound,
        bound_formula="1e-4 of the largest value, 1e-3 inside of a pass, more where tf32 acted",
        where=Where((number, row), step, first_step=int(beyond.any(0).nonzero()[0])),
        cause=CAUSES[stage],
        fix=FIXES[stage],
        details={"fades to a tenth after": f"{fading(sample, gaps)} steps"},
    )


RULE = Rule(
    code="VL604",
    name="target-differs-from-sequential",
    holds="targets are those of the sequential run",
    severity=Severity.ERROR,
    stage=Stage.ADVANTAGE,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
    dear=True,
    replays=True,
)
