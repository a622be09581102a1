"""An action, a reward or an advantage of a training batch belongs to another step, or to none.

Checks
    Every step of the training batches is traced back to the step that was collected. Its action
    must be the one that the env was given there. Where it is another one, it is told whether it is
    that of another step, or was drawn again together with its log-probability. What follows from
    the one that was taken entry by entry (another numbering, a scale, a clip) is taken for another
    form of it. A reward may be changed in any way, but must not be that of another step or agent,
    clipped, scaled or as it was. Neither must an advantage or a target be what the estimator gives
    for another one, nor the next observation what the step itself saw; nor what the env shows and
    the policy does not read, such as the state that a mixer weighs agents by, that of another step.
    What a ``batch`` factory
    makes of rewards is asked by other rewards at single steps: it must move in their own episodes.
    What your own estimator makes for an agent must move with that agent's reward, if with any.

Why it matters
    The reward and the next state answer the action that was taken. Credit given to another one
    teaches nothing, or the opposite. Nothing crashes, and the first ratio of PPO is still 1.

Says nothing when
    the batch holds no action of the env's, or the loss gives the same with the true one, or takes
    it from where it stands (the previous action is stored with each step). Nor where
    the loss reads neither rewards nor what is made of them: labels of an expert are meant. Where a
    few actions are others, it is a warning: your loop may correct what is not allowed.

Fix
    Store the tensordict that ``env.step`` returned, and let nothing act on it again. What needs
    values for it calls the value network alone, or keeps only what it needs of a second call.

Example
    values = critic(batch.clone())["state_value"]     # not: batch = actor_critic(batch)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from rnncheck.checks.evidence.agent_credit import OtherAgents, of_other_agents
from rnncheck.checks.evidence.credited_steps import is_put_right
from rnncheck.checks.evidence.estimated_entries import estimated_entries
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.loss_calls import changed_batch, float_inputs, loss_of, run_loss
from rnncheck.checks.evidence.made_entries import MadeElsewhere, made_elsewhere
from rnncheck.checks.evidence.random_outputs import random_outputs
from rnncheck.checks.evidence.recorded_entries import (
    AGREEING,
    RecordedEntry,
    clipped,
    is_function_of,
    levelled,
    moved_from,
    recorded_entry,
)
from rnncheck.checks.evidence.training_batches import Sample, samples
from rnncheck.checks.rule import (
    CouldNotLook,
    Judgement,
    NotApplicable,
    Observation,
    Rule,
    Unanswered,
)
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where

# Share of the actions beyond which they are no corrections of a few: of an action that is drawn
# again, half and more differ while a policy is new.
CORRECTED = 0.25
PAID = 0.5  # share of the steps with a reward, so that sums over several are others. Chosen
LEAST = 8  # steps that must differ before it is no chance


def run(evidence: Evidence) -> Judgement:
    """Actions, then rewards."""
    found = samples(evidence)
    known = sum(int(sample.known.sum()) for sample in found)
    actions = [_entries(found, key) for key in evidence.env.actions]
    for entries in actions:
        judged = _action(evidence, entries)
        if judged is not None:
            return Judgement((judged[0],), known, severity=judged[1])
    for entries in (_entries(found, key) for key in _rewards(found)):
        words = _of_another_step(entries) if _enough(entries) else ""
        read = words and (evidence.written(Stage.ADVANTAGE) or _changes_the_loss(evidence, entries))
        if read:
            return Judgement((_moved(entries, words),), known)
    for entries in (_entries(found, ("next", *key)) for key in _shown(evidence)):
        own = _enough(entries) and all(map(_shows_its_own, entries))
        words = _of_a_later_step(found, entries) if _enough(entries) and not own else ""
        if (own or words) and _changes_the_loss(evidence, entries):
            seen = _moved(entries, words) if words else _not_next(entries)
            return Judgement((seen,), known)
    for key in (one for one in _shown(evidence) if one not in evidence.policy.reads):
        entries = _entries(found, key)
        words = moved_from([one.recorded for one in entries]) if _enough(entries) else ""
        if words and _changes_the_loss(evidence, entries):
            return Judgement((_moved(entries, words),), known)
    for number, sample in enumerate(found):
        for one, words in estimated_entries(evidence, sample):
            entry = [_Entry(number, sample, one)]
            if words and _enough(entry):
                return Judgement((_moved(entry, words),), known)
    if (made := made_elsewhere(evidence)) is not None:
        return Judgement((_made(made),), known)
    if (others := of_other_agents(evidence)) is not None:
        return Judgement((_of_others(others),), known)
    if not any(actions):
        raise NotApplicable("no training batch holds an action as the env is given it")
    if not known:
        raise CouldNotLook(
            "no step of the training batches could be traced back to the collected data"
        )
    return Judgement((), known, f"{known} steps have what belongs to them")


@dataclass(frozen=True)
class _Entry:
    """One entry of one training batch."""

    number: int
    sample: Sample
    recorded: RecordedEntry


def _entries(found: list[Sample], key: Key) -> list[_Entry]:
    made = ((number, sample, recorded_entry(sample, key)) for number, sample in enumerate(found))
    return [_Entry(number, sample, one) for number, sample, one in made if one is not None]


def _rewards(found: list[Sample]) -> list[Key]:
    columns = found[0].steps.columns if found else {}
    return [key for key in columns if key[0] == "next" and key[-1] == "reward"]


def _shown(evidence: Evidence) -> list[Key]:
    """What the env shows of itself. Start flags of the next steps, which TorchRL's losses read, are
    set on purpose to those of the steps themselves."""
    flags = {*evidence.policy.flags, *evidence.env.tracked}
    return sorted(evidence.env.own - flags)


def _of_another_step(entries: list[_Entry]) -> str:
    """Where rewards are from, also where all of them were clipped, scaled or normalised."""
    found = [one.recorded for one in entries if int(one.recorded.known.sum()) > 1]
    if words := moved_from(found):
        return words
    words = moved_from(list(map(clipped, found))) or moved_from(list(map(levelled, found)))
    return words and f"{words}, in another form"


def _shows_its_own(one: _Entry) -> bool:
    """Whether what was seen next is what the step itself saw."""
    own = recorded_entry(one.sample, one.recorded.key[1:])
    differs = one.recorded.differs
    if own is None or own.recorded.shape != one.recorded.given.shape or not bool(differs.any()):
        return own is not None
    other = replace(one.recorded, recorded=own.recorded).differs
    return float((differs & ~other).sum()) >= AGREEING * float(differs.sum())


def _of_a_later_step(found: list[Sample], entries: list[_Entry]) -> str:
    """Whose next observation it is, where rewards are those of one step: sums over several go with
    what was seen behind the last of them."""
    words = moved_from([one.recorded for one in entries])
    rewards = [one.recorded for key in _rewards(found) for one in _entries(found, key)]
    paid = [float((one.given != 0).double().mean()) for one in rewards]
    alone = bool(paid) and min(paid) > PAID and not any(bool(o.differs.any()) for o in rewards)
    return words if alone else ""


def _differing(entries: list[_Entry]) -> int:
    return sum(int(one.recorded.differs.sum()) for one in entries)


def _enough(entries: list[_Entry]) -> bool:
    return _differing(entries) >= LEAST


def _action(
    evidence: Evidence, entries: list[_Entry]
) -> tuple[Observation, Severity | None] | None:
    """What is wrong with the actions, and how much it weighs."""
    if not _enough(entries):
        return None
    words = moved_from([one.recorded for one in entries])
    again = "" if words else _drawn_again(evidence, entries)
    if not words and not again and all(is_function_of(one.recorded) for one in entries):
        return None
    if not _changes_the_loss(evidence, entries):
        return None
    if words and is_put_right(evidence, entries[0].recorded.key, words):
        return None
    if words:
        return _moved(entries, words), None
    if again:
        return _drawn(entries, again), None
    if not any(_is_paid(evidence, one.sample) for one in entries):
        return None
    share = _differing(entries) / sum(int(one.recorded.known.sum()) for one in entries)
    many = share >= CORRECTED and not entries[0].recorded.given.is_floating_point()
    return _another(entries), None if many else Severity.WARNING


def _drawn_again(evidence: Evidence, entries: list[_Entry]) -> str:
    """What else was drawn anew at most steps where the actions differ."""
    for key in sorted(random_outputs(evidence, evidence.policy, explore=True)):
        if key[0] == "next" or key in (*evidence.env.actions, *evidence.policy.carry):
            continue
        both = 0
        for one in entries:
            beside = recorded_entry(one.sample, key)
            if beside is not None and beside.given.is_floating_point():
                both += int((beside.differs & one.recorded.differs).sum())
        if 2 * both >= _differing(entries):
            return dotted(key)
    return ""


def _changes_the_loss(evidence: Evidence, entries: list[_Entry]) -> bool:
    """Whether the loss gives anything else with what was recorded."""
    other = [one for one in entries if bool(one.recorded.differs.any())]
    return any(_reads(evidence, one.sample, one.recorded) for one in other)


def _reads(evidence: Evidence, sample: Sample, one: RecordedEntry) -> bool:
    rows = sample.rows.clone()
    wide = one.known.reshape(*one.known.shape, *[1] * (one.given.ndim - 2))
    true = torch.where(wide, one.recorded, one.given)
    rows.set(one.key, true.to(sample.rows.get(one.key).dtype))
    try:
        loss_of(evidence)
        here = run_loss(evidence, sample, per_element=False)
        there = run_loss(evidence, sample, rows.reshape(sample.td.shape), per_element=False)
    except Unanswered:  # where there is no loss to ask, the batch alone is judged
        return True
    return not torch.equal(here.total, there.total)


def _is_paid(evidence: Evidence, sample: Sample) -> bool:
    """Whether the loss reads rewards, or numbers of each step that the policy does not."""
    read = {*evidence.policy.carry, *evidence.env.actions}
    keys = [
        key
        for key in float_inputs(sample.td, root=True, following=True)
        if not {key, key[1:]} & read and not _is_observed(evidence, key)
    ]
    try:
        loss_of(evidence)
        here = run_loss(evidence, sample, per_element=False)
        there = run_loss(
            evidence, sample, changed_batch(sample, sample.known, keys), per_element=False
        )
    except Unanswered:
        return False
    return not torch.equal(here.total, there.total)


def _is_observed(evidence: Evidence, key: Key) -> bool:
    seen = set(evidence.env.own)
    return key in seen or (key[0] == "next" and key[1:] in seen)


def _observation(entries: list[_Entry], message: str, cause: str, fix: str) -> Observation:
    one = next(one for one in entries if bool(one.recorded.differs.any()))
    row, step = one.recorded.differs.nonzero()[0].tolist()
    count, name = _differing(entries), dotted(one.recorded.key)
    of = sum(int(one.recorded.known.sum()) for one in entries)
    return Observation(
        message=f"{name} of {count} of {counted(of, 'trained step')} {message}",
        key=name,
        quantity=f"steps whose {name} is not the one that was collected there",
        measured=float(count),
        on=f"training batch {one.number}",
        bound_formula="every step has what was collected there",
        where=Where((one.number, row), step, first_step=step),
        cause=cause,
        fix=fix,
    )


def _moved(entries: list[_Entry], words: str) -> Observation:
    return _observation(
        entries,
        f"is what was collected {words}",
        "the entry was shifted, stacked or laid out in another order than the batch",
        "keep all entries of a step together: change the layout of the whole tensordict",
    )


def _not_next(entries: list[_Entry]) -> Observation:
    return _observation(
        entries,
        "is what the step itself saw",
        "what was seen before the env's step was stored in the place of what it showed after it",
        "store what env.step returned, before the variable that is acted on goes on to it",
    )


def _made(found: MadeElsewhere) -> Observation:
    name = dotted(found.key)
    return Observation(
        message=(
            f"{name}, which the batch factory makes of rewards, moves with the reward of a step"
            f" {'in earlier episodes too' if found.own else 'in another row alone'}"
        ),
        key=name,
        quantity=f"steps whose {name} moves with the reward of another episode's step",
        measured=float(found.count),
        on=f"other rewards at {counted(found.asked, 'single step')}",
        bound_formula="every step has what was made of its own episode",
        where=Where((0, found.row), found.step, first_step=found.step),
        cause=(
            "a sum over steps goes on over the end of an episode"
            if found.own
            else "the batch was put in another order than what was made of it"
        ),
        fix=(
            'stop the sum where batch["next", "done"] is true'
            if found.own
            else f"write {name} into the batch before its rows are shuffled, or index it with them"
        ),
    )


def _of_others(found: OtherAgents) -> Observation:
    name, reward = dotted(found.key), dotted(found.reward)
    return Observation(
        stage=Stage.ADVANTAGE,
        message=f"{name} of each of {found.agents} agents is made of another agent's {reward}",
        key=name,
        quantity=f"steps whose {name} moves with {reward} of another agent alone",
        measured=float(found.steps),
        on=f"batch {found.batch}, with other rewards of one agent at a time",
        bound=0.0,
        bound_formula="an agent's own reward is in what is made for it",
        where=Where((found.batch, 0), 0, first_step=0),
        cause="the agents stand in another order there than in the batch",
        fix=f"keep the dimension of the agents as it is in {reward} and in the values",
    )


def _drawn(entries: list[_Entry], beside: str) -> Observation:
    return _observation(
        entries,
        f"is not what the env was given there: it was drawn again, and {beside} with it",
        "the policy was called once more on steps that were taken already, and wrote another"
        " action over theirs",
        "call it on a copy, batch.clone(), and keep only what you need of that; or read it before"
        " the step is taken",
    )


def _another(entries: list[_Entry]) -> Observation:
    return _observation(
        entries,
        "is not what the env was given there",
        "the action was changed between the env's step and the training batch, or ahead of the"
        " step and not in what is stored",
        "store the action that env.step was given; where others are meant as labels, let the"
        " loss read no rewards with them",
    )


RULE = Rule(
    code="RP509",
    name="entries-misplaced",
    holds="every training step has its own action, reward and advantage",
    severity=Severity.ERROR,
    stage=Stage.REPLAY,
    run=run,
    needs=(Stage.POLICY, Stage.COLLECT),
)
