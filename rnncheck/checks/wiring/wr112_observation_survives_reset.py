"""A reset shows the episode before it: the first observation depends on what was done there.

Checks
    New envs (one, where they have workers) are reset after histories that differ in their actions
    alone: in the last episode, or in the one before it. The same seeds stand before each of them
    and before the reset. What the networks read there must be the same, and what they read behind
    the first step, with the same action: an entry may be one step old. Where actions change
    nothing that is observed, the histories differ in their seeds instead, if the seed before a
    reset settles what it shows. An entry that differs even after the same history (an env that
    takes no seed) is held against the step before the reset instead: it may hold none of its
    values.

Why it matters
    A previous action or reward, a stack of frames, an average that the env does not clear carries
    the last episode into the next one. The recurrent state is reset, and the memory leaks through
    the observation: values and returns of one trajectory then depend on another.

Says nothing when
    the env has TorchRL's VecNorm, whose statistics are meant to go on. What depends on all earlier
    episodes alike, such as a normalisation of your own or a curriculum, is a warning: it cannot be
    told from a memory that is never cleared. A trial of several episodes whose env reports done
    only at the trial's end is reset only there.

Fix
    Clear what the env or a transform keeps in its ``_reset``. Where memory over several episodes is
    meant, make them one trajectory: report done only at the end of the trial.

Example
    def _reset(self, tensordict, tensordict_reset):
        return tensordict_reset.set("previous_action", torch.zeros(2))   # not self.last_action
"""

from __future__ import annotations

from rnncheck.checks.evidence.evidence import Evidence
from rnncheck.checks.evidence.recurrent_pass import declared_reads
from rnncheck.checks.rule import CouldNotLook, Judgement, NotApplicable, Observation, Rule
from rnncheck.numerics.kernels import reason_of
from rnncheck.pipeline.keys import Key, dotted, tensor_keys
from rnncheck.pipeline.recording.reset_trials import (
    FIRST_STEP,
    ResetTrials,
    Residue,
    Undecided,
    look_behind,
)
from rnncheck.printable import counted
from rnncheck.results.model import Severity, Stage

# What the episode before the last one changes, of what the last one does: less is a memory of the
# last steps, more is one of all episodes. Chosen: a memory of half a dozen steps is below it.
FADED = 0.1


def run(evidence: Evidence) -> Judgement:
    """What the networks read of a reset."""
    keys = seen_entries(evidence)
    if not keys:
        raise NotApplicable("the networks read nothing that a reset of the env gives")
    found = _trials(evidence, keys)
    count = counted(len(found.steady) + len(found.moving), "entry of a reset", "show")
    if not found.residues:
        return Judgement((), len(keys), f"{count} nothing of the episode before" + _by(found))
    if found.normalises and not any(one.copied for one in found.residues):
        return Judgement((), len(keys), "what is left of earlier episodes is a normalisation's")
    fading = [one for one in found.residues if one.early <= FADED * one.recent]
    if fading:
        return Judgement((_observed(max(fading, key=lambda one: one.recent)),), len(keys))
    lasting = max(found.residues, key=lambda one: one.early)
    return Judgement((_lasting(lasting),), len(keys), severity=Severity.WARNING)


def seen_entries(evidence: Evidence) -> tuple[Key, ...]:
    """What the env itself gives at a reset and the networks read; all of it where they declare
    nothing."""
    facts, subject = evidence.env, evidence.policy
    skip = {*facts.done, *facts.actions, *facts.tracked, *subject.carry}
    inputs = subject.inputs_of(facts.first)
    given = [key for key in tensor_keys(inputs) if key in facts.own and key not in skip]
    networks = (evidence.pipeline.pristine_policy, evidence.pipeline.pristine_critic)
    read = set[Key]().union(*(declared_reads(network) for network in networks))
    return tuple(key for key in given if key in read) or tuple(given)


def _trials(evidence: Evidence, keys: tuple[Key, ...]) -> ResetTrials:
    try:
        return look_behind(evidence.probe_env, evidence.pipeline.make_acting_env, keys)
    except Undecided as error:
        raise NotApplicable(str(error)) from error
    except Exception as error:  # the env may raise anything
        raise CouldNotLook(f"the env cannot be played ({reason_of(error)})") from error


def _by(found: ResetTrials) -> str:
    if not found.moving:
        return ""
    names = ", ".join(dotted(key) for key in found.moving[:3])
    return f" ({names}, which differs under the same seed, holds no value of the step before)"


def _observed(one: Residue) -> Observation:
    return Observation(
        message=(
            f"the {_named(one.key)} holds a value of the step before the reset"
            if one.copied
            else f"the {_named(one.key)} depends on the last episode's {one.by}"
        ),
        key=dotted(_own(one.key)),
        quantity=(
            f"resets whose {dotted(one.key)} repeats a value of the step before, as a share"
            if one.copied
            else f"max abs difference of {dotted(one.key)} at a reset, after two last episodes"
        ),
        measured=one.recent,
        on=f"resets after histories that differ in their {one.by} alone",
        bound_formula="a reset shows nothing of the episode before it",
        cause=(
            "the env or a transform keeps something of the last steps (previous action or reward,"
            " stacked frames, an average) and its reset does not clear it"
        ),
        fix=(
            "clear it in _reset; where memory over episodes is meant, report done only at the end"
            " of the trial"
        ),
    )


def _own(key: Key) -> Key:
    return key[1:] if key[0] == FIRST_STEP else key


def _named(key: Key) -> str:
    name = dotted(_own(key))
    return f"{name} of the first step behind a reset" if key != _own(key) else f"{name} of a reset"


def _lasting(one: Residue) -> Observation:
    return Observation(
        message=f"the {_named(one.key)} depends on all episodes before it",
        key=dotted(_own(one.key)),
        quantity=f"max abs difference of {dotted(one.key)} at a reset, after two earlier episodes",
        measured=one.early,
        on=f"resets after histories that differ in their {one.by} alone",
        bound_formula="a reset shows nothing of the episodes before it",
        cause=(
            "the env keeps something that no reset clears: a running normalisation or a curriculum,"
            " which may be meant, or a memory, which leaks one episode into the next"
        ),
        fix=(
            "clear it in _reset; a normalisation or a curriculum that is meant is accepted with"
            " `verify: {ignore: [WR112]}`"
        ),
    )


RULE = Rule(
    code="WR112",
    name="observation-survives-reset",
    holds="a first observation shows nothing of the episode before",
    severity=Severity.ERROR,
    stage=Stage.ENV,
    run=run,
    needs=(Stage.ENV, Stage.POLICY),
)
