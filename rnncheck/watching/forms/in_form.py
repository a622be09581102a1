"""Who acted and what was trained on, in the form that the checks ask for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import ReplayBuffer

from rnncheck.pipeline.copying.closures import global_names
from rnncheck.pipeline.copying.copies import copy_of
from rnncheck.pipeline.instruments.own_loss import OwnLoss
from rnncheck.pipeline.keys import Key, tensor_keys
from rnncheck.pipeline.recording.turned import on_turned, time_last
from rnncheck.pipeline.subject.modes import InMode, called_in_mode, measuring
from rnncheck.watching.forms.acted_again import ActingPass
from rnncheck.watching.forms.called_policy import CalledPolicy
from rnncheck.watching.forms.episodes_in_lists import EpisodesInLists, episodes_in_lists
from rnncheck.watching.forms.given_beside import numbers_beside
from rnncheck.watching.forms.held_as import Scale, scale_of
from rnncheck.watching.forms.loss_pass import LossPass
from rnncheck.watching.forms.own_length import OfOneSize, of_its_size, runs
from rnncheck.watching.forms.own_names import with_recorded_names
from rnncheck.watching.forms.part_outputs import PARTS, WithParts, reads_of
from rnncheck.watching.forms.parts_of_steps import parts_of_steps
from rnncheck.watching.forms.plain_calls import ACTION, ToldCall
from rnncheck.watching.forms.plain_loss import acts_in, lays_rows_first, reads_a_state
from rnncheck.watching.forms.plain_pass import CallPass
from rnncheck.watching.forms.plain_policy import PlainPolicy
from rnncheck.watching.forms.rows_inside import on_flat, rows_inside
from rnncheck.watching.forms.slices_in_lines import (
    SlicesInLines,
    is_in_order,
    slices_in_lines,
)
from rnncheck.watching.forms.starts_beside import with_starts
from rnncheck.watching.forms.states_beside import with_states
from rnncheck.watching.forms.steps_alone import runs_along_the_last, steps_alone
from rnncheck.watching.forms.storages import DONE
from rnncheck.watching.forms.switches import (
    MASKS,
    EpisodesAlone,
    never_cross,
    own_pass,
    rows_of_their_own,
    starts_inside,
)
from rnncheck.watching.forms.time_axis import time_axis
from rnncheck.watching.forms.twin_parts import twins_of
from rnncheck.watching.forms.without_noise import without_noise
from rnncheck.watching.seen import Acting, Called

_START = "is_init"


@dataclass(frozen=True)
class InForm:
    """``trained`` are training batches as the recurrent pass gets them, time last; ``axis`` is the
    dimension that is time in the script's own, where it is not the last. ``loss`` is called on
    ``whole``, where that is not empty: it makes the trained ones of these by itself."""

    policy: Any
    batches: list[TensorDictBase]
    trained: list[TensorDictBase] = field(default_factory=list)
    loss: Any = None
    over_sequences: Any = None
    axis: int | None = None
    whole: list[TensorDictBase] = field(default_factory=list)


def in_form(acting: Acting, loss: Called | None, estimator: Called | None) -> InForm:
    """All of it; the ``estimator``, if there is one, makes targets ahead of the loss."""
    noted, plain = [*acting.batches, *acting.further], plain_batches(acting)
    if loss is None and isinstance(acting.policy, PlainPolicy) and acting.parts:
        return InForm(WithParts(acting.policy, acting.parts, (), acting.writes), noted)
    if loss is None:
        return InForm(acting.policy, plain)
    quiet = without_noise(acting.policy, plain[0]) if plain else None
    if loss.own is None or not plain:
        return InForm(acting.policy, plain, loss.inputs, in_its_mode(loss), quiet)
    if loss.over is not None or isinstance(acting.policy, PlainPolicy):
        return _of_a_plain_loop(acting, loss, noted)
    loss = with_recorded_names(acting, loss, plain)
    loss = with_starts(with_states(loss, plain), plain)
    axis, trained = _time_last(loss.inputs, plain)
    if axis is not None and runs_along_the_last(acting.policy, loss.module, loss.inputs[0]):
        axis, trained = None, loss.inputs
    around = None if estimator is not None else lines_ahead(acting, loss)
    judged, whole = turned(in_its_mode(loss), axis), list[TensorDictBase]()
    if around is not None:
        own_axis, whole = _time_last(around.inputs, plain)
        judged = turned(around.module, own_axis)
        whole += _beginning_inside(whole, plain)
    elif axis is None and (rows := rows_inside(loss, trained[0])) is not None:
        alike = all(one.shape == trained[0].shape for one in trained)
        trained = [one.reshape(rows) for one in (trained if alike else trained[:1])]
        judged = on_flat(judged)
    elif axis is None:
        inside = _beginning_inside(
            trained, _estimated(plain, estimator), shorter=acting.kind == "steps"
        )
        trained = [*trained, *(one for one in inside if _takes(loss, one))]
    inner, time_first = turned(loss.module, axis), axis is not None
    parted = acting.kind != "steps" or acting.parts
    if loss.itself and parted and steps_alone(acting.policy, inner, trained[0]):
        loss = replace(loss, itself=False)
    again = None
    if not acting.parts:
        again = parts_of_steps(acting, loss, inner, trained[0], time_first=time_first)
    if again is not None:
        acting, noted = again, [*again.batches, *again.further]
    # Of a function around its networks that makes the action itself only these run in a loss.
    around_it = acting.kind == "steps" and isinstance(acting.policy, CalledPolicy)
    if (loss.itself and not around_it) or loss.switches or not acting.parts:
        over = own_pass(plain, loss) or quiet
        return InForm(acting.policy, plain, trained, judged, over, axis, whole)
    in_parts = acting.kind == "steps"
    from_starts = (around_it or not in_parts) and _from_resets(loss, acting, noted)
    if from_starts and in_parts:
        # They are parts of rollouts that begin with a reset, as the rows do.
        noted, trained = _whole(noted), [one for one in trained if bool(_begins(one).all())]
    parts = {path: acting.policy.get_submodule(path) for path in acting.parts}
    in_loss = LossPass(
        inner,
        parts,
        trained[0],
        time_first=time_first,
        shown=acting.shown,
        from_starts=from_starts,
    )
    anew = axis is None and (rows_of_their_own(plain, loss) or _each_anew(acting, plain, loss))
    over = _in_rows(in_loss, trained, plain, anew=anew)
    reads = reads_of(acting.policy, noted[0].exclude("next", *acting.writes)[..., 0])
    policy = WithParts(acting.policy, acting.parts, reads, acting.writes)
    return InForm(policy, noted, trained, judged, over, axis, whole)


def _in_rows(
    over: Any, trained: list[TensorDictBase], plain: list[TensorDictBase], *, anew: bool
) -> Any:
    """The pass for rows of any length: one trajectory at a time where each begins ``anew``."""
    pieces = never_cross(plain, trained) and not all(bool(_begins(one).all()) for one in trained)
    if anew and not pieces:
        runs(over, trained[0])  # whether it trains apart is known once it has run
        return EpisodesAlone(over, from_starts=True, several=True)
    cut = _are_slices(trained, plain)
    sized = of_its_size(over, trained[0], at_most=True, in_slices=cut)
    return EpisodesAlone(sized, several=True) if pieces else sized


def _of_a_plain_loop(acting: Acting, loss: Called, noted: list[TensorDictBase]) -> InForm:
    """The same of a loop over a plain env, whose pass is a call or lines of the loss."""
    policy = WithParts(acting.policy, acting.parts, (), acting.writes)
    if loss.over is None and (listed := _in_lists(acting, loss)) is not None:
        alone = EpisodesAlone(listed, from_starts=True)
        return InForm(policy, _whole(noted), loss.inputs, loss.module, alone, None, loss.inputs)
    from_starts = loss.alone and not loss.holds_states and not _is_given_a_state(loss)
    from_starts = from_starts and not _goes_on_from_zeros(loss)
    trained = loss.inputs if from_starts else loss.passed or loss.inputs
    over = _by_twins(innermost_pass(loss.over), loss, trained[0]) or _inside(acting, loss)
    slices = None if loss.alone else _slices(over, acting, loss)
    if slices is not None:
        over = OfOneSize(slices, slices.batch, in_slices=True)
        return InForm(policy, noted, [slices.batch], loss.module, over, None, loss.inputs)
    if loss.alone:
        over = of_its_size(over, trained[0], at_most=True)
        over = EpisodesAlone(over, from_starts=from_starts)
        first = acting.random or 0
        noted = [*noted[:first], *_whole(noted[first:])] if from_starts else noted
    else:
        cut = _are_slices(trained, noted)
        over = of_its_size(over, trained[0], at_most=cut, in_slices=cut)
    return InForm(policy, noted, trained, loss.module, over, None, loss.inputs)


def _in_lists(acting: Acting, loss: Called) -> EpisodesInLists | None:
    """The pass of lines with lists of whole episodes, where it runs on one of them."""
    parts = {path: acting.policy.get_submodule(path) for path in acting.parts}
    found = episodes_in_lists(loss.module, parts, loss.inputs[0])
    return found if found is not None and runs(found, loss.inputs[0][:, :2]) else None


def _by_twins(over: Any, loss: Called, batch: TensorDictBase) -> Any:
    """The pass, by the parts of the network that it trains where another copy of that acts."""
    if isinstance(over, CallPass) and not runs(over, batch):
        over.parts = twins_of(over.parts, loss.module) or over.parts
    return over


def innermost_pass(over: Any) -> Any:
    """The pass of a plain loop as what is judged."""
    return over.settled() if isinstance(over, CallPass) else over


def plain_batches(acting: Acting) -> list[TensorDictBase]:
    """What was collected, without what parts of the policy gave."""
    return [batch.exclude(PARTS) for batch in (*acting.batches, *acting.further)]


def _slices(over: Any, acting: Acting, loss: Called) -> SlicesInLines | None:
    """The pass over slices that the lines take of the rollout, where they do not run over all of
    it, one step after the other."""
    if not isinstance(over, LossPass):
        return None
    if runs(over, loss.inputs[0]) and is_in_order(over, loss.inputs[0]):
        return None
    parts = {path: acting.policy.get_submodule(path) for path in acting.parts}
    return slices_in_lines(loss.module, parts, loss.inputs[0])


def _inside(acting: Acting, loss: Called) -> LossPass | ActingPass:
    """What the lines of a plain loop give by themselves, one step after the other; or what acting
    gave, where they are made of that."""
    parts = {path: acting.policy.get_submodule(path) for path in acting.parts}
    acts = acts_in(loss.module)
    if acts is not None:
        return ActingPass(acts, parts)
    shown, scales = _of_steps_before(acting)

    def over(parts: dict[str, nn.Module]) -> LossPass:
        return LossPass(
            loss.module,
            parts,
            loss.inputs[0],
            time_first=not lays_rows_first(loss.module),
            once=True,
            shown=shown,
            scales=scales,
        )

    trained = over(parts)
    twins = {} if runs(trained, loss.inputs[0]) else twins_of(parts, loss.module)
    return over(twins) if twins else trained


def _of_steps_before(acting: Acting) -> tuple[dict[Key, Key], dict[Key, Scale]]:
    """Of what who acts gets of the step before, the entries that a loss reads it from, and where it
    is a multiple of these the scale."""
    told = acting.policy.told if isinstance(acting.policy, PlainPolicy) else ToldCall()
    shown, scales = dict[Key, Key](), dict[Key, Scale]()
    for key, one in told.before.items():
        shown[key] = one.source if one.source[0] == "next" else (ACTION,)
        last = acting.batches[-1]
        if shown[key] != one.source and {one.source, (ACTION,)} <= set(tensor_keys(last)):
            mine, theirs = (last.get(k).flatten(0, -2).double() for k in (one.source, (ACTION,)))
            scale = scale_of(mine, theirs) if mine.shape == theirs.shape else None
            scales |= {} if scale is None else {key: scale}
    return shown, scales


def _each_anew(acting: Acting, plain: Sequence[TensorDictBase], loss: Called) -> bool:
    """Whether every rollout begins with a reset and ends with an episode, and every row that is
    trained on begins there too: no pass is ever given two trajectories in a row."""
    batches = [*plain, *loss.inputs]
    if not acting.anew or starts_inside(batches) or not all(map(_has_flags, batches)):
        return False
    ended = any(bool(one.get(DONE).any()) for one in plain if DONE in tensor_keys(one))
    return ended and all(bool(_begins(one).all()) for one in batches)


def _is_given_a_state(loss: Called) -> bool:
    """Whether the pass begins with a state that acting had, by an argument or a variable: one that
    it was given as zeros each time is none."""
    if isinstance(loss.over, CallPass):
        keys = [slot.key for slot in loss.over.seen.states.values()]
        return any(bool(batch.get(key)[:, 0].any()) for batch in loss.passed for key in keys)
    return reads_a_state(loss.module)


def _from_resets(loss: Called, acting: Acting, noted: Sequence[TensorDictBase]) -> bool:
    """Whether rows that begin with a reset are all that the loss is for: other states change
    nothing of it, wherever a row begins."""
    acted = noted[:1] if acting.kind == "steps" else noted
    if not all(_has_flags(one) and bool(_begins(one).all()) for one in (*acted, *loss.inputs)):
        return False
    carried = [key[1:] for key in acting.writes if key[0] == "next"]
    given = loss.inputs[0]
    going, keys = given.clone(), set(tensor_keys(given))
    for key in [key for key in keys if key[0] != "next" and key[-1] == _START]:
        going.get(key)[:, 0] = False
    other = going.clone()
    for key in keys.intersection(carried):
        other.set(key, other.get(key) + 1)
    return _totals(loss, going) == _totals(loss, other)


def _totals(loss: Called, batch: TensorDictBase) -> list[float]:
    """What the loss gives; nothing where it raises."""
    try:
        with measuring(recurrent=loss.modes.recurrent, grad=True):
            found = OwnLoss(loss.module, {}, loss.batch)(batch)
    except Exception:  # a function of the user's may raise anything
        return []
    return [float(one.detach().sum()) for one in found.values()]


def _goes_on_from_zeros(loss: Called) -> bool:
    """Whether rows of the pass begin inside of episodes, and it is handed zeros for their states:
    that is no choice of where to begin."""
    if not isinstance(loss.over, CallPass) or not loss.over.seen.states:
        return False
    return any(not bool(_begins(batch).all()) for batch in loss.passed)


def _whole(batches: list[TensorDictBase]) -> list[TensorDictBase]:
    """The steps of one loop, which are told in parts, as one batch."""
    alike = len({one.shape[:-1] for one in batches}) == 1
    return [torch.cat(batches, -1)] if alike and len(batches) > 1 else batches


def beside(loss: Called, acted: Sequence[TensorDictBase]) -> tuple[Any, list[TensorDictBase]]:
    """A loss that is judged by itself beside the first one, and its batches with time last."""
    if loss.own is None or not acted:
        return in_its_mode(loss), loss.inputs
    axis, trained = _time_last(loss.inputs, acted)
    return turned(in_its_mode(loss), axis), trained


def lines_ahead(acting: Acting, loss: Called) -> Called | None:
    """The script's lines around the loss, where they make what it is given beside what was
    collected: the innermost that make all numbers of it, on their batch without these."""
    noted = [*acting.batches, *acting.further]
    if loss.own is None or not noted or not loss.inputs:
        return None
    known = set(tensor_keys(noted[0]))
    beside = numbers_beside(loss)
    if not loss.around or not (set(tensor_keys(loss.inputs[0])) - known or beside):
        return None
    if acting.kind == "rollout" and not beside:
        return None
    shapes = {batch.shape for batch in noted}
    ahead = [o for o in loss.around if acting.kind == "steps" or o.inputs[0].shape in shapes]
    ahead = [one for one in ahead if not _holds_a_buffer(one.module)]
    tried = (_making(one, loss, known) for one in ahead)
    return next((one for one in tried if one is not None), None)


def _holds_a_buffer(lines: Any) -> bool:
    """Whether they read a replay buffer: what they are given is not what comes out of it."""
    inner = called_in_mode(lines)[1]
    function = getattr(inner, "func", inner)  # of lines that begin with a state they carry
    named = (function.__globals__.get(name) for name in global_names(function))
    held = [*named, *(function.__kwdefaults__ or {}).values()]
    return any(issubclass(type(one), ReplayBuffer) for one in held)


def _making(lines: Called, loss: Called, known: set[Key]) -> Called | None:
    """The lines with their batch as it was ahead of them; None where numbers that the loss is given
    were made before."""
    whole = lines.inputs[0]
    more = [key for key in tensor_keys(whole) if key not in known]
    made = [key for key in more if _makes(lines, key)]
    given = loss.inputs[0]
    left = [key for key in more if key not in made and key in given.keys(True, True)]
    runs = made or (not more and _makes(lines))
    if not runs or any(given.get(key).is_floating_point() for key in left):
        return None
    return replace(lines, inputs=[whole.exclude(*made)])


def _makes(lines: Called, *keys: Key) -> bool:
    """Whether they run without the entries: they write them themselves, or do not read them."""
    try:
        with measuring(recurrent=lines.modes.recurrent, grad=True):
            OwnLoss(lines.module, {})(lines.inputs[0].exclude(*keys))
    except Exception:  # lines of the user's may raise anything
        return False
    return True


def _estimated(collected: list[TensorDictBase], estimator: Called | None) -> list[TensorDictBase]:
    """What was collected, with what the estimator makes of it."""
    if estimator is None:
        return collected
    own, found = estimator.module, list[TensorDictBase]()
    for batch in collected:
        try:
            with measuring(recurrent=estimator.modes.recurrent):
                made = copy_of(own, "the estimator")(batch.clone())
        except Exception:  # it may take batches of another kind alone
            continue
        found.append(made if isinstance(made, TensorDictBase) else batch)
    return found


def _takes(loss: Called, batch: TensorDictBase) -> bool:
    """Whether it runs on the batch, which may be shorter than its own."""
    try:
        with measuring(recurrent=loss.modes.recurrent, grad=True):
            OwnLoss(loss.module, {}, loss.batch)(batch.clone())
    except Exception:  # a function of the user's may raise anything
        return False
    return True


def _beginning_inside(
    given: Sequence[TensorDictBase], collected: Sequence[TensorDictBase], *, shorter: bool = False
) -> list[TensorDictBase]:
    """Where all rows that a loss was ``given`` begin with an episode: as many that were collected
    and begin inside of one. Only there does the state that they begin with tell anything. Of a
    script's own steps, which are told in parts, ``shorter`` rows."""
    first, keys = given[0], set(tensor_keys(given[0]))
    if first.batch_dims < 2:  # slices laid end to end: these begin inside of episodes
        return []
    if not all(_begins(one).all() for one in given):
        return []
    alike = [
        one
        for one in collected
        if one.batch_dims > 1
        and one.shape[2:] == first.shape[2:]
        and (one.shape[1] == first.shape[1] or (shorter and one.shape[1] < first.shape[1]))
        and not any(map(_told_by_numbers, keys - set(tensor_keys(one)), itertools.repeat(first)))
    ]
    most = max(alike, key=lambda one: int((~_begins(one)).sum()), default=first)
    begins = _begins(most)
    if begins.all():
        return []
    order = torch.cat([(~begins).nonzero().flatten(), begins.nonzero().flatten()])
    taken = order[torch.arange(len(first)) % len(order)]  # fewer are given twice, as samples may be
    found = most[taken].select(*keys, strict=False)
    for key in keys - set(tensor_keys(found)):  # which of the buffer's rows it was
        found.set(key, first.get(key)[:, : found.shape[1]])
    return [found]


def _told_by_numbers(key: Key, batch: TensorDictBase) -> bool:
    """Whether the entry is more than an index of its row."""
    value: Tensor = batch.get(key)
    return value.is_floating_point() or value.dtype == torch.bool


def _has_flags(batch: TensorDictBase) -> bool:
    return bool(_flags(batch))


def _flags(batch: TensorDictBase) -> list[Key]:
    keys = tensor_keys(batch)
    return [key for key in keys if key[0] not in ("next", MASKS) and key[-1] == _START]


def _are_slices(trained: Sequence[TensorDictBase], collected: Sequence[TensorDictBase]) -> bool:
    """Whether rows that are trained on are pieces of longer ones, and begin inside of episodes."""
    longer = max(one.shape[-1] for one in collected) > trained[0].shape[-1]
    return longer and not all(bool(_begins(one).all()) for one in trained)


def _begins(batch: TensorDictBase) -> Tensor:
    """Which rows begin with an episode; all of them where no flag tells."""
    flags = [batch.get(key) for key in _flags(batch)]
    steps = batch.shape[-1]
    count = batch.numel() // steps
    rows = [flag.reshape(count, steps, -1)[:, 0].any(1) for flag in flags]
    return rows[0] if rows else torch.ones(count, dtype=torch.bool)


def _time_last(
    batches: list[TensorDictBase], acted: Sequence[TensorDictBase]
) -> tuple[int | None, list[TensorDictBase]]:
    """The dimension that is time, where it is not the last, and the batches with it as the last."""
    axis = time_axis(batches[0], acted)
    if axis == batches[0].batch_dims - 1:
        return None, batches
    return axis, [time_last(one, axis) for one in batches]


def turned(loss: Any, axis: int | None) -> Any:
    """The loss as a function of batches whose last dimension is time."""
    return loss if axis is None else on_turned(loss, axis)


def in_its_mode(called: Called) -> Any:
    """TorchRL's losses set the mode by themselves; another is called as the script calls it."""
    module = called.module
    if called.modes.recurrent is None or not isinstance(module, nn.Module):
        return module
    return module if type(module).__module__.startswith("torchrl.") else InMode(module, True)
