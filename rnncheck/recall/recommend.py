"""What follows from the measures: findings to act on, and what slices and burn-in should be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rnncheck.printable import counted
from rnncheck.results.memory import (
    CRITIC,
    POLICY,
    Estimated,
    InfluenceCurve,
    MemoryAdvice,
    MemoryFinding,
    MemoryResult,
    Observed,
    Question,
    ReplayCurve,
    ReturnEffect,
)
from rnncheck.spec.model import Spec

_DRIFTS = 1.25  # a norm that grows or falls by more than a quarter: chosen
_MANY = 0.5  # of the units, saturated or dead: chosen


@dataclass(frozen=True)
class TrainedOn:
    """What the spec trains on: how long a slice is, and how many of its steps are burn-in; None
    where the spec does not say."""

    slice_len: int | None
    burn_in: int
    what: str  # where the length is from, in words

    @property
    def learning(self) -> int | None:
        """The steps that gradients run through."""
        return None if self.slice_len is None else max(0, self.slice_len - self.burn_in)


def trained_on(spec: Spec) -> TrainedOn:
    """The length of what a training batch's rows hold, as the spec writes it."""
    replay, collect = spec.replay, spec.collect
    burn_in = 0
    if replay is not None:
        for one in replay.transforms:
            if one.use == "BurnInTransform" and isinstance(one.args.get("burn_in"), int):
                burn_in = one.args["burn_in"]
    sampler = replay.sampler.args if replay is not None and replay.sampler is not None else {}
    if isinstance(length := sampler.get("slice_len"), int):
        return TrainedOn(length, burn_in, "slice_len")
    slices, size = sampler.get("num_slices"), replay.batch_size if replay is not None else None
    if isinstance(slices, int) and slices > 0 and size:
        return TrainedOn(size // slices, burn_in, "batch_size / num_slices")
    frames = collect.args.get("frames_per_batch") if collect is not None else None
    if replay is None and isinstance(frames, int) and frames > 0:
        return TrainedOn(max(1, frames // spec.env.workers), burn_in, "steps of a batch of an env")
    return TrainedOn(None, burn_in, "")


def findings_of(result: MemoryResult, trained: TrainedOn) -> tuple[MemoryFinding, ...]:
    """What was found that the user should act on."""
    found = [*_unused(result, trained), *_short(result, trained), *_cut(result)]
    return (*found, *_states(result), *_burned(result, trained))


def _unused(result: MemoryResult, trained: TrainedOn) -> Iterator[MemoryFinding]:
    under = next((one for one in result.returns if one.treatment == "reset every step"), None)
    if (
        under is None
        or under.effect not in (ReturnEffect.SAME, ReturnEffect.BETTER)
        or under.lost is None
    ):
        return
    same, lost = under.effect is ReturnEffect.SAME, under.lost
    how, falls = ("as well", "falls") if same else ("better", "rises")
    by = lost if same else Estimated(-lost.value, -lost.high, -lost.low)
    yield MemoryFinding(
        "memory-unused",
        f"does {how} without memory: with the state reset at every step the return {falls} by"
        f" {_interval(by)} in {counted(len(under.returns), 'episode')}",
        _why_unused(result, trained),
        _how_to_use(result, trained),
    )


def _why_unused(result: MemoryResult, trained: TrainedOn) -> str:
    """What was seen that would explain it."""
    curve = result.main_curve
    if curve is None:
        return ""
    states = [one for one in result.curves if one.of_state and one.whose == POLICY]
    moves = [one for one in states if one.lags[0].largest > one.noise]
    if curve.horizon == 0 and not states:
        return f"no earlier observation changes {_of_agent(curve)}"
    if curve.horizon == 0 and not moves:
        return "no observation changes the state: the memory is dead (`rnncheck verify`: BD306)"
    if curve.horizon == 0 and not any(one.horizon for one in moves):
        return (
            "observations change the state, and a step later nothing is left of it: the state"
            " starts anew at every step, or nothing reads it"
        )
    if curve.horizon == 0:
        return "observations change the state, and no later output reads it: the head ignores it"
    changed = f"earlier observations do change {_of_agent(curve)}"
    told = f"{changed}, up to {_count(curve.horizon)} later"
    parts = [f"{told}; {_needed(result.observed)}", _cut_short(result, trained)]
    return "; ".join(part for part in parts if part)


def _count(count: int) -> str:
    return counted(count, "step")


def _needed(seen: Observed | None) -> str:
    """Whether the task takes more than an observation shows."""
    if seen is not None and seen.whole:
        return f"the return does not need it: {seen.because}"
    if seen is not None and seen.whole is False:
        return f"the task's use of the past is not learned, or worth nothing: {seen.because}"
    told = (
        "the return does not need it: each observation shows what the task takes, or the task's use"
        " of the past is not learned"
    )
    return told if seen is None else f"{told}; which, could not be told: {seen.because}"


def _cut_short(result: MemoryResult, trained: TrainedOn) -> str:
    longest, learning = max(result.lengths, default=0), trained.learning
    shown = result.observed is not None and result.observed.whole
    if shown or learning is None or learning >= longest:
        return ""
    steps = counted(learning, "step")
    return (
        f"gradients run through {steps} ({trained.what}), and episodes last up to"
        f" {longest}: what has to be remembered for {steps} or more cannot be learned from them"
    )


def _how_to_use(result: MemoryResult, trained: TrainedOn) -> str:
    if _cut_short(result, trained):
        longest = max(result.lengths)
        return f"train on slices of up to {longest} steps, or drop the recurrent module"
    return "if the task needs no memory, drop the recurrent module: it costs time"


def _short(result: MemoryResult, trained: TrainedOn) -> Iterator[MemoryFinding]:
    curve, learning = _farthest(result), trained.learning
    if curve is None or curve.reach is None or learning is None:
        return
    if curve.reach.low + 1 > learning:
        needed = math.ceil(curve.reach.value) + 1 + trained.burn_in
        yield MemoryFinding(
            "slices-short",
            f"{_of_agent(curve)} depends on observations {_steps(curve.reach)} back, and gradients"
            f" run through {counted(learning, 'step')} ({trained.what})",
            "no gradient tells the state what to keep for longer than that",
            f"slices of {counted(needed, 'step')} or more",
        )


def _cut(result: MemoryResult) -> Iterator[MemoryFinding]:
    """Where the graph of a pass over time ends before the influence does."""
    curves = [one for one in result.curves if not one.of_state and not one.through]
    replaced = {(o.named, o.agent): o for o in curves if o.method == "replaced"}
    for one in curves:
        other = replaced.get((one.named, one.agent))
        if one.method != "gradient" or one.partial or other is None or other.reach is None:
            continue
        if one.horizon < other.reach.low:
            yield MemoryFinding(
                "gradient-cut",
                f"{_of_agent(one)} depends on observations {_steps(other.reach)} back, and no"
                f" gradient of a pass over {one.longest + 1} steps or more reaches further back"
                f" than {_count(one.horizon)}",
                "the graph is cut (`detach`), or what is carried further has no gradient",
                f"cut it every {math.ceil(other.reach.value) + 1} steps or more, or not at all",
            )


def _of_agent(curve: InfluenceCurve) -> str:
    """The output, with the agent whose it is where there are several."""
    return curve.named if curve.agent is None else f"{curve.named} of agent {curve.agent}"


def _burned(result: MemoryResult, trained: TrainedOn) -> Iterator[MemoryFinding]:
    curve = _neediest(one for one in result.replay if one.start == "zero")
    if curve is None or curve.burn_in is None or trained.what not in ("slice_len",):
        return
    if 0 < trained.burn_in < curve.burn_in.low:
        yield MemoryFinding(
            "burn-in-short",
            f"from zero the outputs need {_steps(curve.burn_in)} to come within"
            f" {curve.share:.0%} of the first step's error, and burn_in is {trained.burn_in}",
            "",
            f"burn_in: {math.ceil(curve.burn_in.value)}",
        )


def _states(result: MemoryResult) -> Iterator[MemoryFinding]:
    for one in result.states:
        if one.saturated is not None and one.saturated > _MANY * one.units:
            yield MemoryFinding(
                "state-saturated",
                f"{one.saturated} of {one.units} units of {one.named} are at their bound nearly"
                " always: they pass no gradient",
            )
        if one.dead == one.units or one.dead > _MANY * one.units:
            yield MemoryFinding(
                "state-dead", f"{one.dead} of {one.units} units of {one.named} never move"
            )
        drift = one.drift
        if drift is not None and (drift.low > _DRIFTS or drift.high < 1 / _DRIFTS):
            yield MemoryFinding(
                "state-drifts",
                f"behind the {one.trained} steps that are trained on the norm of {one.named} is"
                f" {_interval(drift)} times that in their second half",
                "the network acts on states that training never showed it",
            )


def advice_of(result: MemoryResult, trained: TrainedOn) -> tuple[MemoryAdvice, ...]:
    """What the settings should be, as far as the questions are answered; nothing of what remembers
    nothing."""
    if not {Question.HORIZON, Question.REPLAY} <= set(result.answered):
        return ()
    zero, stored, curve = _zero_start(result), _stored_start(result), _farthest(result)
    if zero is None or curve is None or zero.burn_in is None or not curve.horizon:
        return ()
    start, behind = _start(zero, stored)
    alone = _alone(result)
    if alone is not None and _burn_in(alone) > _burn_in(behind):
        behind = alone
    burn = _burn_in(behind)
    needed = 0 if curve.reach is None else math.ceil(curve.reach.value)
    now = "unknown" if trained.slice_len is None else str(trained.slice_len)
    return (
        MemoryAdvice(
            "slice_len", now, str(needed + 1 + burn), curve.reach,
            f"burn-in {burn}, the {needed} steps that {_of_agent(curve)} reaches back, and the"
            " step itself",
        ),
        MemoryAdvice(
            "burn_in", str(trained.burn_in), str(burn), behind.burn_in,
            f"behind it nine of ten slices of {behind.named} are within {zero.share:.0%} of the"
            " error of a start from zero",
        ),
        MemoryAdvice("start", "", start, None, _why_start(zero, stored)),
    )  # fmt: skip


def _burn_in(curve: ReplayCurve) -> int:
    return 0 if curve.burn_in is None else math.ceil(curve.burn_in.value)


def _start(zero: ReplayCurve, stored: ReplayCurve | None) -> tuple[str, ReplayCurve]:
    """Where slices should start from, and what their burn-in then follows from."""
    if stored is None or _burn_in(stored) >= _burn_in(zero):
        return "zero", zero
    return "stored", stored


def _why_start(zero: ReplayCurve, stored: ReplayCurve | None) -> str:
    if stored is None or stored.burn_in is None or zero.burn_in is None:
        return ""
    stale = (
        "" if "older" in stored.start else " (of these very weights; --older tells of stale ones)"
    )
    return (
        f"a start from zero needs {_steps(zero.burn_in)} of burn-in, the stored state"
        f" {_steps(stored.burn_in)}{stale}"
    )


def _farthest(result: MemoryResult) -> InfluenceCurve | None:
    """Of policy and critic the curve that reaches back furthest."""
    found = [result.farthest(whose) for whose in (POLICY, CRITIC)]
    return max(
        (one for one in found if one is not None),
        key=lambda one: one.reach.value if one.reach is not None else 0.0,
        default=None,
    )


def _neediest(curves: Iterable[ReplayCurve]) -> ReplayCurve | None:
    """Of the outputs the one that needs most."""
    return max((one for one in curves if one.burn_in is not None), key=_burn_in, default=None)


def _zero_start(result: MemoryResult) -> ReplayCurve | None:
    """From zero, where there is a stored state to do without."""
    found = [one for one in result.replay if one.start == "zero"]
    return _neediest(one for one in found if one.named in _with_stored(result))


def _alone(result: MemoryResult) -> ReplayCurve | None:
    """From zero, where no stored state would help: of a critic that does not act."""
    found = [one for one in result.replay if one.start == "zero"]
    return _neediest(one for one in found if one.named not in _with_stored(result))


def _with_stored(result: MemoryResult) -> set[str]:
    return {one.named for one in result.replay if one.start != "zero"}


def _stored_start(result: MemoryResult) -> ReplayCurve | None:
    """From the stored state, of older weights where they were given."""
    found = [one for one in result.replay if one.start != "zero"]
    older = [one for one in found if "older" in one.start]
    return _neediest(older or found)


def _interval(found: Estimated) -> str:
    return f"{found.value:.3g} [{found.low:.3g}, {found.high:.3g}]"


def _steps(found: Estimated) -> str:
    least = "at least " if found.beyond else ""
    return f"{least}{found.value:.0f} [{found.low:.0f}, {found.high:.0f}] steps"
