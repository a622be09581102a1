"""What is said of a script is said of the script: there is no spec that a user could look into."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rnncheck.pipeline.guard.user_frames import INSTALLED, LIBRARIES
from rnncheck.printable import counted
from rnncheck.results.events import CheckFinished, Event, GuaranteeJudged, Notice, StageFinished
from rnncheck.results.guarantees import ISOLATION
from rnncheck.results.model import (
    NOBODY_ACTED,
    NOT_IN_SCRIPT,
    NOT_IN_SPEC,
    UNKNOWN_ACTOR,
    GuaranteeResult,
    Outcome,
    Stage,
    StageResult,
    Standing,
)
from rnncheck.watching.seen import Called, Sightings

RAISED = "not run: the script raised"
UNSEEN = "the script calls `backward`, and no batch that its loss is made of was seen"
TOO_EARLY = "the script set out to train, and no batch that its loss is made of was seen"
NONE_SENT = (
    f"the workers of a collector make their policy by `policy_factory`, and {UNKNOWN_ACTOR}: it was"
    " sent the weights of no module that was seen, before the first update: call"
    " `collector.update_policy_weights_(policy)` before the first batch"
)
SENT_LATE = (
    "the workers of a collector acted with other weights than they were sent before the first"
    " update, which had not arrived: nothing can be told of who acted. Run it again, or let the"
    " script wait for them, as `MultiProcessWeightSyncScheme(sync=True)` does"
)
MEMORY_UNJUDGED = (
    "a network with a memory of its own is trained there, by a loss that is not judged: a spec can"
    " name it as its `loss:`"
)
LACKS = re.compile(r"\bthe (?:spec|script) (?=has no\b|has neither\b|makes no\b|names no\b)")


# What mends a loop over an env that is none of TorchRL's, which has no primer and no collector.
PLAIN_FIXES = {
    "CL401": "give each call the state that the call before it returned",
    "CL403": "where an env was reset put back the state that episodes begin with, for that one",
    "CL405": (
        "mark the step behind every end as a start; gymnasium's vector envs begin anew inside of"
        " the step that ends with autoreset_mode=AutoresetMode.SAME_STEP"
    ),
    "LS703": "run the network over whole slices inside the loss, from the states they begin with",
}


def unseen_loss(seen: Sightings, train: StageResult) -> str:
    """Why a script that trains, or set out to, has no loss to judge; empty where it has one, or
    only acts."""
    if seen.loss() is not None:
        return ""
    if seen.backwards:
        return seen.unseen or UNSEEN
    return TOO_EARLY if train.outcome is Outcome.NOT_LOOKED else ""


def of_the_script(
    event: Event, *, raised: bool = False, unseen: str = "", plain: bool = False
) -> Event:
    """The event in words of the script; what it has not may be behind the line that raised, or in
    a loss that is ``unseen``, for the reason given. ``plain``: it acts in an env that is none of
    TorchRL's."""
    match event:
        case CheckFinished():
            said = _said(event.result.reason, raised=raised)
            fix = PLAIN_FIXES.get(event.result.code) if plain else None
            found = event.result.findings
            found = found if fix is None else tuple(replace(one, fix=fix) for one in found)
            return replace(event, result=replace(event.result, reason=said, findings=found))
        case GuaranteeJudged() if unseen and LACKS.search(event.result.because):
            open_ = replace(event.result, standing=Standing.NOT_SHOWN, because=unseen)
            return replace(event, result=open_)
        case GuaranteeJudged():
            said = _said(event.result.because, raised=raised)
            return replace(event, result=replace(event.result, because=said))
        case StageFinished() if event.result.detail == NOT_IN_SPEC:
            said = RAISED if raised else NOT_IN_SCRIPT
            if unseen and event.result.stage in (Stage.REPLAY, Stage.LOSS):
                said = unseen
            return replace(event, result=replace(event.result, detail=said))
        case Notice():
            return replace(event, text=LACKS.sub("the script ", event.text))
    return event


def _said(reason: str, *, raised: bool) -> str:
    lacks = LACKS.search(reason) is not None
    return RAISED if raised and lacks else LACKS.sub("the script ", reason)


def beside_what_is_judged(events: Iterable[Event], place: str) -> Iterator[Event]:
    """The events of a script that trains a memory at the ``place`` by a loss which is not judged:
    whether trajectories reach each other in it is not shown by the others."""
    for event in events:
        if isinstance(event, GuaranteeJudged) and place and event.result.name == ISOLATION:
            event = replace(event, result=_without_what_is_at(place, event.result))
        yield event


def _without_what_is_at(place: str, judged: GuaranteeResult) -> GuaranteeResult:
    if judged.standing is not Standing.SHOWN:
        return judged
    because = f"{place}: {MEMORY_UNJUDGED}"
    return replace(judged, standing=Standing.NOT_SHOWN, because=because)


def not_judged(called: Called) -> str:
    """What is said of a loss beside the one that is judged."""
    name = "a loss of your own" if called.own is not None else type(called.module).__name__
    return f"{name} was called as well, and is not judged"


def fed_by_networks(called: Called) -> str:
    """What is said of a loss module that got what networks had made, in lines that are no loss."""
    return (
        f"{type(called.module).__name__} was called on what networks had made of the batch, and the"
        " lines around it are no function of a batch: mark the function that makes the loss with"
        " @rnncheck.loss"
    )


def why_nothing(train: StageResult) -> str:
    """Why nothing of it can be judged."""
    return RAISED if train.outcome is Outcome.ERROR else NOBODY_ACTED


def _stepping_packages(seen: Sightings) -> list[str]:
    """Libraries that step plain envs, without TorchRL and what it steps them with."""
    found = set[str]()
    for path in seen.steppers:
        parts = Path(path).parts
        at = next((n for n, one in enumerate(parts) if one in INSTALLED), None)
        if at is not None and at + 1 < len(parts) and parts[at + 1] not in LIBRARIES:
            found.add(f"`{parts[at + 1].removesuffix('.py')}`")
    return sorted(found)


def what_there_was(seen: Sightings) -> str:
    """What a script did in which nobody acted."""
    called = seen.recurrent or seen.layers
    calls = [f"{counted(count, 'call')} of {name}" for name, count in called.items()]
    calls = calls or ["0 calls of recurrent modules"]
    calls += [
        counted(seen.env_steps, "env step"),
        f"{counted(seen.backwards, 'call')} of backward",
        counted(seen.steps, "optimiser step"),
    ]
    if seen.plain:
        return (
            f"the script steps an env by itself, and {UNKNOWN_ACTOR}: {seen.plain};"
            " let one function get what the env shows and the state that its call before returned,"
            " and return the action and the new state: `action, state = act(obs, state, done)`; or"
            f" step the env as one of TorchRL's. {', '.join(calls)} were seen"
        )
    if not seen.env_steps and (packages := _stepping_packages(seen)):
        return (
            f"the env is stepped inside of {' and '.join(packages)}, whose lines are not followed:"
            " it does not say that it needs torch and gymnasium or TorchRL; install it with `pip"
            f" install -e` from a folder of its own. {', '.join(calls)} were seen"
        )
    if any(one.late for one in seen.acting):
        return f"{SENT_LATE}; {', '.join(calls)} were seen"
    if any(one.sent is not None and one.batches for one in seen.acting):
        return f"{NONE_SENT}; {', '.join(calls)} were seen"
    if not seen.env_steps and seen.processes:
        return (
            f"the script has started {counted(seen.processes, 'process')}, and no env"
            " was stepped in its own: what happens in others is not seen; step the envs in the"
            " script's own process (SyncVectorEnv, DummyVecEnv, one worker without a process of its"
            f" own). {', '.join(calls)} were seen"
        )
    return (
        "no collector, no env.rollout with a policy and no env.step behind a module's call on its"
        f" tensordict was seen; {', '.join(calls)} were"
    )
