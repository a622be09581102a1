"""A watched script as a stream of events: what it did is judged as a spec's pipeline is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TextIO

from torch import nn

from rnncheck.checks.engine.run import unasked_rules
from rnncheck.checks.engine.session import Illustrator, run_started, verify_events
from rnncheck.checks.engine.session import Seen as Heard
from rnncheck.checks.rule import Rule
from rnncheck.pipeline.guard.default_device import own_tensors_on_cpu
from rnncheck.results.events import (
    Event,
    GuaranteeJudged,
    Notice,
    RunStarted,
    StageFinished,
    StageStarted,
)
from rnncheck.results.files import write_atomic
from rnncheck.results.guarantees import judge_guarantees
from rnncheck.results.model import Outcome, Stage, StageResult
from rnncheck.spec.model import Spec
from rnncheck.spec.scaffold import MODELINE
from rnncheck.watching import weights
from rnncheck.watching.assemble import NothingSeen, spec_from
from rnncheck.watching.doubts import (
    settle_counted,
    settle_doubts,
    settle_numbers,
    settle_starts,
    settle_wholes,
)
from rnncheck.watching.ending import TO_DO, ScriptEnd, as_far_as_it_came, trained
from rnncheck.watching.forms.estimates import settle_estimates
from rnncheck.watching.forms.late_weights import settle_late
from rnncheck.watching.forms.mode_switches import by_mode
from rnncheck.watching.forms.moved_weights import settle_moved
from rnncheck.watching.forms.named_switches import as_acted
from rnncheck.watching.forms.plain_policy import PlainEnv, settle_envs
from rnncheck.watching.forms.rounds import settle_rounds
from rnncheck.watching.forms.switches import own_pass, own_switches, switched
from rnncheck.watching.observer import Watching
from rnncheck.watching.saving.import_paths import CannotKeep, home_of
from rnncheck.watching.saving.keeping import RunKeeping
from rnncheck.watching.saving.lost import Lost, ends_without, without
from rnncheck.watching.saving.spec_writing import described_spec
from rnncheck.watching.script import Script, main_kept, run_script
from rnncheck.watching.seen import Acting, Sightings
from rnncheck.watching.words import (
    RAISED,
    beside_what_is_judged,
    fed_by_networks,
    not_judged,
    of_the_script,
    unseen_loss,
    why_nothing,
)

# What is done behind the checks of a script: what was seen of it, how it ended, and the events.
_Asked = ParamSpec("_Asked")
BehindChecks = Callable[[Sightings, StageResult, Iterator[Event]], Iterator[Event]]


@dataclass(frozen=True)
class RunLimits:
    """When enough of a script was seen, and when it is ended."""

    updates: int = 3
    seconds: float = 600.0
    keep_going: bool = False
    save: Path | None = None  # where what was seen is kept
    spec: Path | None = None  # where the spec of it is written


def watched_events(
    script: Script,
    asked: Spec,
    rules: Sequence[Rule],
    limits: RunLimits,
    *,
    thorough: bool = False,
    strict: bool = False,
    illustrate: Illustrator | None = None,
    behind: BehindChecks | None = None,
) -> Iterator[Event]:
    """Run the script under the watch, then ask ``rules`` of what was seen; ``asked`` is the spec of
    nothing, with its settings."""
    yield run_started(asked, rules, "run", strict=strict)
    begin = time.perf_counter()
    watching = Watching(
        limits.updates, ends=not limits.keep_going, describes=limits.spec is not None
    )
    with main_kept(), own_tensors_on_cpu(), ExitStack() as scope:
        yield StageStarted(Stage.TRAIN)
        ended = run_script(script, watching, limits.seconds)
        scope.enter_context(as_it_acted(watching.seen))
        watching.compare_weights()
        _note_untrained(watching.seen, ended)
        weights.put(watching.seen.weights_then)
        weights.unfreeze(watching.seen.trained.values())
        _settle(watching.seen)
        train = trained(watching.seen, ended, time.perf_counter() - begin)
        yield StageFinished(train)
        if ended.enough and not ended.interrupted and watching.seen.updates:
            yield Notice(f"the script was {train.detail} (`--updates`)")
        elif ended.interrupted:
            yield Notice(f"{ended.caught}; what was seen until then is judged")
        elif ended.timed_out:
            yield Notice(f"the script was ended after {limits.seconds:g} s (`--seconds`)")
        if limits.save is not None:
            yield from map(Notice, _kept(script, watching.seen, asked, train, limits.save))
        if limits.spec is not None:
            yield from map(Notice, _described(script, watching.seen, asked, limits.spec))
        judged = judged_events(
            watching.seen,
            asked,
            rules,
            train,
            thorough=thorough,
            strict=strict,
            illustrate=illustrate,
        )
        yield from judged if behind is None else behind(watching.seen, train, judged)


def _note_untrained(seen: Sightings, ended: ScriptEnd) -> None:
    """Where the script came to its end by itself, what acts will be given nothing any more."""
    acting = seen.actor()
    if acting is not None and acting.apart and ended == ScriptEnd():
        acting.untrained = seen.updates


def _settled(
    judge: Callable[Concatenate[Sightings, _Asked], Generator[Event, None, None]],
) -> Callable[Concatenate[Sightings, _Asked], Generator[Event, None, None]]:
    """Judging, behind what only the script's own lines tell, and with its switches set by mode."""

    @wraps(judge)
    def judged(
        seen: Sightings, /, *args: _Asked.args, **kwargs: _Asked.kwargs
    ) -> Generator[Event, None, None]:
        _settle(seen)
        with _switches_by_mode(seen):
            yield from judge(seen, *args, **kwargs)

    return judged


@_settled
def judged_events(
    seen: Sightings,
    asked: Spec,
    rules: Sequence[Rule],
    train: StageResult,
    *,
    command: str = "run",
    lost: Lost | None = None,
    thorough: bool = False,
    strict: bool = False,
    illustrate: Illustrator | None = None,
) -> Generator[Event, None, None]:
    """What the rules say of what was seen, without the first event. ``lost`` are stages that were
    seen and cannot be judged again."""
    lost = lost or {}
    raised = train.outcome is Outcome.ERROR
    try:
        with _nowhere() as nowhere, _not_shown(nowhere):  # its lines run again to be told
            spec = spec_from(seen, asked)
    except NothingSeen as nothing:
        why = next((lost[one] for one in (Stage.ENV, Stage.POLICY) if one in lost), "")
        yield from map(Notice, [] if why else [nothing.message])
        ends = [train, *(ends_without(lost, seen) if why else ())]
        yield from _unseen(rules, ends, why or why_nothing(train), strict=strict)
        return
    weights.put(seen.weights_then)  # lines that were run again may have counted statistics on
    if spec.device != asked.device:  # told again: where the script computes is known by now
        there = asked.model_copy(update={"device": spec.device})
        yield run_started(there, rules, command, strict=strict)
    yield from map(Notice, notices(seen, raised=raised or Stage.LOSS in lost))
    if train.outcome is Outcome.NOT_LOOKED:
        yield Notice(TO_DO)
    unseen = "" if raised or Stage.LOSS in lost else unseen_loss(seen, train)
    acting = seen.actor()
    plain = acting is not None and isinstance(acting.make_env, PlainEnv)
    events = verify_events(
        spec, rules, command=command, thorough=thorough, strict=strict, illustrate=illustrate
    )
    told = (
        of_the_script(event, raised=raised, unseen=unseen, plain=plain)
        for event in _silent(events)
        if not isinstance(event, RunStarted)
    )
    short = RAISED if raised else unseen
    judged = beside_what_is_judged(told, seen.memory_unjudged)
    yield from without(lost, as_far_as_it_came(judged, short), strict=strict)


def as_it_acted(seen: Sightings) -> AbstractContextManager[None]:
    """Who acts is as it was while it did."""
    acting = seen.actor()
    if acting is None:
        return nullcontext()
    return _as_acted(acting, seen)


@contextmanager
def _as_acted(acting: Acting, seen: Sightings) -> Iterator[None]:
    """Where losses of the user's own are told with switches, they are asked with those as they
    are."""
    policy = acting.policy
    with as_acted(policy, acting.switches, acting.trains), ExitStack() as scope:
        if isinstance(policy, nn.Module) and not _switched_in_lines(seen):
            scope.enter_context(switched(policy, own_switches(policy, acting.switches)))
        yield


def _switched_in_lines(seen: Sightings) -> bool:
    return any(one.switches for one in seen.losses if one.own is not None)


def _switches_by_mode(seen: Sightings) -> AbstractContextManager[None]:
    """What the script sets otherwise around losses and estimators of TorchRL's."""
    acting = seen.actor()
    told = [one for one in seen.losses if one.own is None and one.switches]
    if not told or acting is None or _switched_in_lines(seen):
        return nullcontext()
    estimators = [one.module for one in seen.estimators if one.switches]
    return by_mode(
        acting.policy,
        acting.switches,
        told[0].switches,
        [network for _, _, network in seen.networks],
        [one for one in estimators if isinstance(one, nn.Module)],
    )


def _settle(seen: Sightings) -> None:
    """What can only be told by running the script's lines again."""
    with _nowhere() as nowhere, _not_shown(nowhere):
        settle_late(seen)
        settle_moved(seen)
        settle_envs(seen)
        settle_starts(seen)
        settle_counted(seen)
        settle_numbers(seen)
        settle_wholes(seen)
        settle_doubts(seen)
        settle_rounds(seen)
        settle_estimates(seen)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


@contextmanager
def _not_shown(nowhere: TextIO) -> Iterator[None]:
    """What the script's code prints when it is called again was printed before."""
    with redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _silent(events: Generator[Event, None, None]) -> Iterator[Event]:
    """The same, and nothing is printed by what runs meanwhile."""
    with _nowhere() as nowhere, closing(events):  # loggers keep it from one event to the next
        while True:
            with _not_shown(nowhere):
                event = next(events, None)
            if event is None:
                return
            yield event


def _kept(
    script: Script, seen: Sightings, asked: Spec, train: StageResult, path: Path
) -> Iterator[str]:
    """Keep what was seen; what of it could not be is told."""
    home = home_of(script.name, module=script.module)
    keeping = RunKeeping(seen, home)
    keeping.write(path, asked, train)
    yield f"what was seen is kept in {path.name} (`rnncheck verify {path.name}` judges it again)"
    yield from dict.fromkeys(keeping.lost.values())


def _described(script: Script, seen: Sightings, asked: Spec, path: Path) -> Iterator[str]:
    """Write the spec of what was seen; what of it could not be is told."""
    try:
        text, missing = described_spec(script, seen, asked, path.parent)
    except CannotKeep as error:
        yield f"no spec is written: {error}"
        return
    write_atomic(path, f"{MODELINE}\n{text}")
    yield f"the spec of what was seen is {path.name} (`rnncheck verify {path.name}`)"
    for one in missing:
        yield f"{path.name} lacks what is to be filled in by hand: {one}"


def _unseen(
    rules: Sequence[Rule], ends: list[StageResult], why: str, *, strict: bool
) -> Iterator[Event]:
    """No check could look, and all for one reason."""
    heard = Heard()
    yield from map(StageFinished, ends[1:])
    yield from heard.hearing(unasked_rules(rules, why))
    for one in judge_guarantees(heard.checks, ends, strict=strict):
        yield GuaranteeJudged(replace(one, because=why if one.because else ""))


def notices(seen: Sightings, *, raised: bool = False) -> Iterator[str]:
    """What was seen and is not judged, and what to do about it."""
    loss, judged = seen.loss(), seen.judged_losses()
    for one in [one for one in seen.losses if one not in judged]:
        if not (one.fed or one.covered):
            yield f"{one.place}: {not_judged(one)}"
        elif loss is None:
            yield f"{one.place}: {fed_by_networks(one)}"
    for place, what in seen.unjudged.items():
        yield f"{place}: {what}"
    acting = seen.actor()
    acted = [] if acting is None else [*acting.batches, *acting.further]
    own = loss is not None and loss.own is not None
    if loss is not None and own and loss.switches and own_pass(acted, loss) is None:
        names = ", ".join(sorted({name for held in loss.switches.values() for name in held}))
        yield (
            f"{loss.place}: the policy trains with another {names} than it acts with, on rows in"
            " which no trajectory begins: that pass is judged by the loss alone"
        )
    if acting is not None and seen.loss() is None and not raised:
        yield "no call of a loss module was seen: loss and gradients are not judged"
    if acting is not None and acting.copies and acting.left:
        yield (
            f"{acting.place}: who acts is a copy of the network that is trained, with its first"
            f" weights so far: {acting.left} may give it others later, which is not judged"
        )
    if acting is not None and acting.collector is not None and not acting.further:
        yield (
            f"{acting.place}: the collector was not asked for further batches: what it carries from"
            " batch to batch is judged by those before the first update"
        )
