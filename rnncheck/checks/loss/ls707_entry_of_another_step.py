"""The loss weighs a step with the action or the advantage of another one.

Checks
    At half of the steps of a training batch the action is exchanged for one that was taken
    elsewhere, every step standing alone (every start flag set). The gradient of the total loss at
    what is observed tells which steps the loss has used these actions for; where no flag cuts the
    memory of torch's own layers, the gradient at what the layers behind it give. That is asked once
    more with the flags as they are, and of each layer that acts by itself, which other terms of the
    loss do not reach. It must be the same steps. The same is asked of rewards, and of what was made
    of each step before the loss, such as advantages and a teacher's labels, and of numbers that
    acting gave, such as log-probabilities. Labels of later steps are taken for predictions, and
    such numbers for values that a target is made of. Where rewards are summed up inside the loss,
    that of a single step is changed: the last step that it weighs must be its own, and of each
    layer that acts as well. At last, what layers give for a row is told by what is observed there.
    Where rewards of all rows weigh it, those of its own row must. That is asked under several seeds
    where minibatches are drawn. The same is asked of agents: each agent's entry must not weigh
    another one alone.

Why it matters
    A shift by one between the slices of two arrays, or rows and steps exchanged in one of them,
    gives credit to actions that had no part in it. The loss falls all the same.

Says nothing when
    a network reads the action of the step before, as the policy does, a change moves the step
    itself too (normalised advantages move all steps), or the loss has no gradient at what is
    observed. Nor are rows asked whose rewards and ends another row shares (agents of one team).

Fix
    Cut and lay out all entries of a step together, ahead of the loss: ``batch[:, :-1]``, not one
    tensor of it.

Example
    chosen = dist.log_prob(batch["action"])     # not: dist.log_prob(batch["action"].roll(1, 0))
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rnncheck.checks.evidence.agent_credit import OtherAgents, weighed_with_others
from rnncheck.checks.evidence.credited_steps import (
    Credited,
    credited,
    credited_as_marked,
    labels_of,
    opposite,
    other_step,
    recorded_numbers,
)
from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.last_credited import (
    BEHIND,
    LastCredited,
    last_by_layer,
    last_credited,
)
from rnncheck.checks.evidence.layer_credit import credited_by_layer
from rnncheck.checks.evidence.left_out import loss_leaves_out
from rnncheck.checks.evidence.loss_calls import each_sample, loss_of
from rnncheck.checks.evidence.predicted_rewards import predicts
from rnncheck.checks.evidence.previous_actions import shows_previous
from rnncheck.checks.evidence.recorded_entries import moved_from, recorded_entry
from rnncheck.checks.evidence.row_credit import RowCredit, row_credit
from rnncheck.checks.evidence.training_batches import samples
from rnncheck.checks.evidence.unmarked_joins import crosses
from rnncheck.checks.rule import Deferred, Judgement, NotApplicable, Observation, Rule
from rnncheck.pipeline.keys import Key, dotted
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage, Where


def run(evidence: Evidence) -> Judgement:
    """Every entry, over the batches together."""
    if type(loss_of(evidence)).__module__.startswith("torchrl."):
        raise NotApplicable("the loss is TorchRL's, and takes its entries from the batch as it is")
    if crosses(evidence) and not loss_leaves_out(evidence):
        raise Deferred("the batch joins steps without a mark", "RP501", "RP502", "RP506")
    found = credited(evidence)
    for told in (found.items(), credited_as_marked(evidence).items(), _by_layer(evidence, found)):
        for key, entries in told:
            words = other_step([one for _, one in entries])
            if words and not _is_meant(evidence, key, words, entries):
                return Judgement((_observed(*entries[0], words),), int(entries[0][1].valid.sum()))
    summed = last_credited(evidence)
    for last in (*summed, *(last_by_layer(evidence) if summed else ())):
        if last.offset and not _is_meant(evidence, last.key, _words(last.offset), ()):
            return Judgement((_summed(last),), last.count)
    other = row_credit(evidence)
    if other is not None:
        return Judgement((_of_another_row(other),), other.count)
    if (agents := weighed_with_others(evidence)) is not None:
        return Judgement((_of_another_agent(agents),), agents.steps)
    if not found and not summed:
        raise NotApplicable("no action, no reward and no number made of a step weighs its terms")
    count = sum(int(one.changed.sum()) for entries in found.values() for _, one in entries)
    count += sum(last.count for last in summed)
    return Judgement((), count, counted(count, "changed step", "weigh nothing but themselves"))


def _by_layer(
    evidence: Evidence, found: Collection[Key]
) -> Iterator[tuple[Key, list[tuple[int, Credited]]]]:
    """Of actions that some step is weighed with."""
    if found:
        yield from credited_by_layer(evidence)


def _is_meant(
    evidence: Evidence, key: Key, words: str, entries: Sequence[tuple[int, Credited]]
) -> bool:
    """Whether another step's entry is right: it stands there shifted back, it is the action that a
    network is shown, or the reward that is predicted with what it came with, or what comes later is
    what is predicted."""
    if opposite(words, _stands(evidence, key)) or _previous(evidence, words, entries):
        return True
    if words == _words(1) and key[-1] == "reward" and predicts(evidence, key):
        return True
    return words.endswith(" later") and any(
        key in (*labels_of(evidence, sample), *recorded_numbers(evidence, sample))
        for _, sample in each_sample(evidence)
    )


def _previous(evidence: Evidence, words: str, entries: Sequence[tuple[int, Credited]]) -> bool:
    """Whether a network reads the action of the step before, which the policy is shown as well."""
    if words != _words(1) or not any(one.read for _, one in entries):
        return False
    chosen = each_sample(evidence)
    return any(shows_previous(evidence, sample, entries[0][1].key) for _, sample in chosen)


def _words(offset: int) -> str:
    return f"{counted(abs(offset), 'step')} {'earlier' if offset > 0 else 'later'}"


def _stands(evidence: Evidence, key: Key) -> str:
    """Where the entry was collected that stands in the batch, if that is elsewhere."""
    made = (recorded_entry(sample, key) for sample in samples(evidence))
    return moved_from([one for one in made if one is not None])


def _observed(number: int, one: Credited, words: str) -> Observation:
    wrong = one.changed & ~one.moved & one.valid
    row, step = wrong.nonzero()[0].tolist()
    name = dotted(one.key)
    return Observation(
        message=f"where the loss weighs a step, its {name} is the one {words}",
        key=name,
        quantity=f"steps whose own {name} moves nothing of them",
        measured=float(wrong.sum()),
        on=f"training batch {number}, with other values of {name} at half of the steps",
        bound_formula="an entry of a step weighs that step",
        where=Where((number, row), step, first_step=step),
        cause="one of the arrays in the loss is shifted, stacked or laid out otherwise",
        fix=f"cut and lay out {name} as what the network gives, together with the whole batch",
    )


def _of_another_row(other: RowCredit) -> Observation:
    name = dotted(other.key)
    return Observation(
        message=f"the loss weighs the steps of a row with the {name} of other rows, not its own",
        key=name,
        quantity=f"places of row {other.row} that the {name} of other rows moves, and its own not",
        measured=float(other.count),
        on=f"training batch {other.batch}, with other values of {name} in row {other.row}",
        bound=0.0,
        bound_formula="an entry of a row weighs that row",
        where=Where((other.batch, other.row), 0, first_step=0),
        cause="one of the arrays in the loss has its rows (envs, minibatches) in another order",
        fix=f"pick {name}, and what is made of it, with the very indices that pick the rest",
    )


def _of_another_agent(other: OtherAgents) -> Observation:
    name = dotted(other.key)
    return Observation(
        message=f"the loss weighs each of {other.agents} agents with another agent's {name}",
        key=name,
        quantity=f"places of an agent that {name} of others moves, and its own not",
        measured=float(other.steps),
        on=f"training batch {other.batch}, with other values of {name} of one agent at a time",
        bound=0.0,
        bound_formula="an agent's entry weighs that agent",
        where=Where((other.batch, 0), 0, first_step=0),
        cause="one of the arrays in the loss has the agents in another order",
        fix=f"keep the dimension of the agents in {name} as it is in what the network gives",
    )


def _summed(last: LastCredited) -> Observation:
    batch, row, step = last.place
    name, early = dotted(last.key), last.offset > 0
    what = "also with" if early else "no more with its own, but with"
    said = f"the loss weighs a step {what} the {name} of {_words(last.offset)}"
    if last.offset == BEHIND:
        said = f"the loss weighs the last steps with a {name} before them, and not the first ones"
    return Observation(
        message=said,
        key=name,
        quantity=f"steps from a {name} to the last one that it weighs",
        measured=float(last.offset),
        on=f"other values of {name} at {counted(last.count, 'single step')}",
        bound=0.0,
        bound_formula="a reward weighs its own step last",
        where=Where((batch, row), step, first_step=step),
        cause=(
            "the sums of rewards are laid beside other steps, or in the opposite order"
            if early
            else "the sum of rewards begins behind the step's own reward"
        ),
        fix="begin the sum of a step with the reward of its own action",
    )


RULE = Rule(
    code="LS707",
    name="entry-of-another-step",
    holds="the loss weighs every step with its own action",
    severity=Severity.ERROR,
    stage=Stage.LOSS,
    run=run,
    needs=(Stage.POLICY, Stage.LOSS),
)
