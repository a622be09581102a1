"""What each argument and result of the calls that act is, by what they held."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.held_as import MANY, NUMBERS, SCALE_CLOSE, TENSORS, Scale, scale_of
from rnncheck.watching.forms.one_step import names_a_reward
from rnncheck.watching.forms.plain_calls import (
    ACTION,
    ACTION_BEFORE,
    ENDS,
    FLAG,
    LINES,
    MOSTLY,
    OBSERVATION,
    OWNER,
    REWARD_BEFORE,
    OfStepBefore,
    Slot,
    ToldCall,
)
from rnncheck.watching.forms.plain_columns import Column, Columns
from rnncheck.watching.forms.structures import Path

_CHANGED = (
    " (what is shown may be changed by a wrapper of gymnasium's or inside of what acts; of the step"
    " before the reward and a one-hot action are known as inputs, by themselves)"
)
_OF_ENV = {
    REWARD_BEFORE: OfStepBefore(("next", "reward")),
    ACTION_BEFORE: OfStepBefore((ACTION,), one_hot=True),
}
_TAKEN = {OBSERVATION, FLAG, ACTION, "next", "reward", "done", *ENDS}


def told_call(steps: Columns) -> ToldCall:
    """What each argument and result of the acting calls is, and what the owner of the method holds
    that is a state."""
    arguments, results = dict[Path, Slot](), dict[Path, Slot]()
    before: dict[Key, OfStepBefore] = {}
    for path, column in steps.given.items():
        slot, source = _argument(steps, path, column, results)
        if slot is not None:
            arguments[path] = slot
            if source is not None and _is_action(steps, source):
                shown = (_result(steps, source),)
                results[source] = replace(slot, key=shown, none=None, scale=None)
                stays, first = _stays(steps, column.values, source), _first(steps, column.values)
                before[slot.key] = OfStepBefore(shown, stays=stays, first=first)
            elif source is not None:
                results[source] = replace(slot, key=("next", *slot.key), none=None)
            elif slot.key in _OF_ENV:
                before[slot.key] = _of_step_before(steps, slot, column.values)
        elif not _needless(path, column):
            return ToldCall(
                why=f"{_given(steps, path)} is neither what the env"
                f" showed, nor what the call before returned, nor always the same{_CHANGED}"
            )
    action: tuple[Path, Slot] | None = None
    for path, column in steps.gave.items():
        values = column.values
        if values is None or path[:1] == (OWNER,):
            continue
        if action is None and _same(values, steps.action):
            action = path, _action(steps, values)
            results.setdefault(path, action[1])
        if path in results or _is_handed_on(steps, values):
            continue
        if values.is_floating_point() and (steps.rows == 1 or steps.rows in values.shape[1:]):
            results[path] = slot_of((_result(steps, path),), values, steps.rows)
    for path, slot in arguments.items():
        if slot.key in before:
            before[slot.key] = _with_drawn(steps, slot, before[slot.key], steps.given[path].values)
    return replace(_whole(steps, arguments, results), action=action, before=before)


def _of_step_before(steps: Columns, slot: Slot, values: Tensor | None) -> OfStepBefore:
    if slot.key == ACTION_BEFORE and not slot.dtype.is_floating_point:
        factor, by = slot.scale or (1.0, 0.0)
        stays = values is not None and not _begin_alike(steps, values)
        first = 0.0 if stays else (_first(steps, values) - by) / factor
        return OfStepBefore((ACTION,), stays=stays, first=first)
    return replace(_OF_ENV[slot.key], stays=_any_at_starts(steps, values))


def _is_handed_on(steps: Columns, values: Tensor) -> bool:
    """Whether a result is what the call was given, as lines that note a step have it among theirs:
    no network made it."""
    return any(_same(values, one.values) for one in steps.given.values())


def _result(steps: Columns, path: Path) -> str:
    return "_".join((steps.name, *path))


def _is_action(steps: Columns, source: Path) -> bool:
    """Whether a result is the action, or a multiple of it: what it is handed on as is no state."""
    gave, taken = steps.gave[source].values, steps.action
    if gave is None or taken is None or gave.numel() != taken.numel():
        return False
    if not bool((taken != taken.flatten()[0]).any()):
        return False
    mine, theirs = (one.reshape(len(one), -1) for one in (gave, taken))
    return scale_of(mine, theirs) is not None


def _with_drawn(
    steps: Columns, slot: Slot, told: OfStepBefore, values: Tensor | None
) -> OfStepBefore:
    """With what the first of the episodes began with, where they begin with anything, such as with
    a random action."""
    if values is None or told.stays or told.first != 0 or not _any_at_starts(steps, values):
        return told
    begins = _beginnings(steps).T
    laid = slot.found(values, 1)  # [rows, steps, ...]
    if laid.shape[:2] != begins.shape or not bool(begins.any()):
        return told
    return replace(told, drawn=laid[begins][0].clone())


def _first(steps: Columns, values: Tensor | None) -> float:
    """The number that every episode begins with; 0 where they do not all begin with one."""
    if values is None or values.numel() != steps.done.numel():
        return 0.0
    found = values.reshape(steps.done.shape)[_beginnings(steps)]
    return float(found[0]) if len(found) and bool((found == found[0]).all()) else 0.0


def _beginnings(steps: Columns) -> Tensor:
    """Where an episode begins, ``[steps, envs]``."""
    return torch.cat([torch.full_like(steps.done[:1], not steps.goes_on), steps.done[:-1]])


def _any_at_starts(steps: Columns, values: Tensor | None) -> bool:
    """Whether it is not zero where an episode begins in one of the envs."""
    begins = _beginnings(steps)
    if values is not None and values.shape[1:2] == begins.shape[1:]:
        return bool((values[begins] != 0).any())
    return values is not None and bool((values[begins.any(1)] != 0).any())


def _stays(steps: Columns, values: Tensor | None, source: Path) -> bool:
    """Whether it is what the step before gave where an episode begins as well, and not zero."""
    gave = steps.gave[source].values
    begins = steps.done[:-1].any(1)
    if values is None or gave is None or not bool((values[1:][begins] != 0).any()):
        return False
    first = steps.goes_on or not bool(values[0].any())
    return first and torch.equal(values[1:][begins], gave[:-1][begins])


def _action(steps: Columns, values: Tensor) -> Slot:
    """The action, in the form in which the env gets it."""
    slot = slot_of((ACTION,), values, steps.rows, values[0].numel() // steps.rows)
    assert steps.action is not None
    taken = tuple(steps.action.shape[1:])
    return replace(slot, rest=taken if slot.axis is None or steps.rows == 1 else taken[1:])


def _argument(
    steps: Columns, path: Path, column: Column, taken: Collection[Path]
) -> tuple[Slot | None, Path | None]:
    """What it is and, of a state, the result that it was, one that is not ``taken`` where several
    are alike; None where it is nothing that is known."""
    values = column.values
    if values is None:
        return None, None
    key, scale = (None, None) if path[0] == OWNER else _known(steps, path, column)
    source = None
    if path[0] == OWNER and column.of_what != TENSORS:  # a number that the loop may put there
        changes = bool((values != values[0]).any())
        key, scale = _before(steps, values) if changes else (None, None)
        if key is None:
            return None, None
    if key is None:
        if column.of_what == NUMBERS and bool((values == values[0]).all()):
            return (
                None,
                None,
            )  # a plain number that stays is no state, whatever was the same by chance
        source = _carried(steps, values, taken)
        theirs, mine = source is not None and source[:1] == (OWNER,), path[0] == OWNER
        if source is None or (theirs and not mine):
            return None, None
        changed = theirs and not _same(values, steps.gave[source].values)
        if mine and not changed and (theirs or not _is_put_there(values)):
            return None, None
        own = path[1:] if path[0] == OWNER else path
        slot = slot_of((_free("_".join(own)),), values, steps.rows)
    else:
        width = {FLAG: 1, REWARD_BEFORE[0]: 1}.get(key[0], steps.width)
        if key == ACTION_BEFORE or key in steps.beside:
            width = values[0].numel() // steps.rows
        slot = slot_of(key, values, steps.rows, width)
    slot = replace(
        slot, of_what=column.of_what, none=column.none, scale=scale, listed=column.listed
    )
    return slot, source


def _is_put_there(values: Tensor) -> bool:
    """Whether a loop may have put a state there that the method returned: vectors that vary."""
    return values.is_floating_point() and values.ndim > 2 and bool((values != values[0]).any())


def _are_lines(steps: Columns) -> bool:
    """Whether lines of the loop act, and no function."""
    return steps.name == LINES


def _given(steps: Columns, path: Path) -> str:
    name = ".".join(path)
    if _are_lines(steps):
        return f"`{name}`, which the lines ahead of `env.step` read,"
    return f"the argument `{name}` of `{steps.name}`"


def _free(name: str) -> str:
    """A state's key, beside the entries that every batch has: a loop may call the action that it
    gives back ``action``, and the env's another one."""
    return f"{name}_carried" if name in _TAKEN else name


def _needless(path: Path, column: Column) -> bool:
    """Whether it may stay what it is: it always was, or it is of no state, or of none that the call
    needs, as it was made without it too."""
    if column.lacking:
        return True
    values = column.values
    same = values is not None and bool((values == values[0]).all())
    return same or path[0] == OWNER or column.goes_one_way


def _whole(steps: Columns, arguments: dict[Path, Slot], results: dict[Path, Slot]) -> ToldCall:
    if (OBSERVATION,) not in {slot.key for slot in arguments.values()}:
        what = f"no argument of `{steps.name}`"
        if _are_lines(steps):
            what = "nothing that the lines ahead of `env.step` read"
        return ToldCall(why=f"{what} is what the env showed{_CHANGED}")
    if not any(slot.key[0] == "next" for slot in results.values()) and not steps.forgets:
        if _are_lines(steps):
            return ToldCall(why="the lines ahead of `env.step` read no state that they gave before")
        return ToldCall(why=f"`{steps.name}` is not given a state that its call before returned")
    return ToldCall(arguments, results, steps.rows)


def _known(steps: Columns, path: Path, column: Column) -> tuple[Key | None, Scale | None]:
    """The entry that the env gave; a plain bool that is always alike may be anything."""
    values = column.values
    assert values is not None
    if _same(values, steps.seen):
        return (OBSERVATION,), None
    for key, shown in steps.beside.items():
        if _same(values, shown):
            return key, None
    changes = bool((values != values[0]).any())
    if len(values) < 2 or (column.of_what == NUMBERS and not changes):
        return None, None
    for ends in (steps.done, steps.ended):
        if _same(values[1:], ends[:-1]):
            return (FLAG,), None
        mine = values[1:].reshape(len(values) - 1, -1)
        if changes and mine.shape == ends[:-1].shape:
            scale = scale_of(mine, ends[:-1])
            if scale is not None:
                may_be = _is_of_rewards(scale) or names_a_reward(path)
                rewards = _before(steps, values) if may_be else (None, None)
                return ((FLAG,), scale) if rewards[0] is None else rewards
    return _before(steps, values)


def _is_of_rewards(scale: Scale) -> bool:
    """Whether a flag of a first step would be another number than 0 and 1: rewards that are all
    alike, none at a first step, are such numbers."""
    return set(scale) != {-1.0, 1.0} and scale != (1.0, 0.0)


def _before(steps: Columns, values: Tensor) -> tuple[Key | None, Scale | None]:
    """The reward or the action of the step before, zero where an episode begins, or what it was
    there as well."""
    mine = values.reshape(len(values), -1)
    if not mine.is_floating_point():
        scale = _numbered(steps, mine)
        if scale is not None:
            return ACTION_BEFORE, scale
        mine = mine.double()  # rewards may be whole numbers
    if mine.shape[1] % steps.rows or not bool(mine.any()):
        return None, None
    laid = mine.reshape(len(mine), steps.rows, -1)
    goes_on = ~steps.done[:-1]
    if bool(laid[1:][~goes_on].any()):
        goes_on = torch.ones_like(goes_on)
    if int(goes_on.sum()) < MANY or (bool(laid[0].any()) and not steps.goes_on):
        return None, None
    told = laid[1:][goes_on]
    if steps.reward is not None and steps.reward.numel() == mine.numel():
        given = steps.reward.reshape(steps.done.shape)[:-1][goes_on].to(mine.dtype).unsqueeze(1)
        scale = scale_of(told, given)
        if scale is not None and abs(scale[1]) <= SCALE_CLOSE * abs(scale[0]):
            return REWARD_BEFORE, None if scale[0] == 1 else (scale[0], 0.0)
    taken = steps.action
    if taken is not None and not taken.is_floating_point() and taken.numel() == steps.done.numel():
        number = taken.reshape(steps.done.shape)[:-1][goes_on].long()
        inside = int(number.min()) >= 0 and int(number.max()) < laid.shape[2] > 1
        if inside and torch.equal(one_hot(number, laid.shape[2]).to(told.dtype), told):
            return ACTION_BEFORE, None
    return None, None


def _numbered(steps: Columns, mine: Tensor) -> Scale | None:
    """Of numbers that stand for the action before, such as one more than it, what it is turned into
    them by; one number stands for none."""
    taken, number = steps.action, mine.numel() == steps.done.numel()
    if taken is None or taken.is_floating_point() or taken.numel() != mine.numel() or not number:
        return None
    own, before = mine.reshape(steps.done.shape), taken.reshape(steps.done.shape)
    goes_on = ~steps.done[:-1]
    if not _begin_alike(steps, own):
        goes_on = torch.ones_like(goes_on)  # it stays where an episode begins
    acted = before[:-1][goes_on]
    if len(acted) < MANY or not bool((acted != acted[0]).any()):
        return None
    return scale_of(own[1:][goes_on], acted)


def _begin_alike(steps: Columns, values: Tensor) -> bool:
    """Whether it has one number wherever an episode begins."""
    begins = values.reshape(steps.done.shape)[_beginnings(steps)]
    return not len(begins) or bool((begins == begins[0]).all())


def _same(values: Tensor, others: Tensor | None) -> bool:
    if others is None:
        return False
    mine, wanted = (one.reshape(len(values), -1) for one in (values, others))
    return mine.shape == wanted.shape and torch.equal(mine, wanted.to(mine.dtype))


def _carried(steps: Columns, values: Tensor, taken: Collection[Path]) -> Path | None:
    """The result of the call before that the argument holds, where no episode ended between."""
    found = list(_alike_before(steps, values))
    return next((path for path in found if path not in taken), next(iter(found), None))


def _alike_before(steps: Columns, values: Tensor) -> Iterator[Path]:
    axis = _axis(tuple(values.shape[1:]), steps.rows)
    goes_on = ~steps.done[:-1]
    for path, column in steps.gave.items():
        gave = column.values
        if gave is None or gave.shape != values.shape:
            continue
        same = values[1:] == gave[:-1]
        lanes = same.unsqueeze(1) if axis is None else same.movedim(1 + axis, 1)
        equal = lanes.reshape(*goes_on.shape, -1).all(2) & goes_on
        if goes_on.any() and int(equal.sum()) >= MOSTLY * int(goes_on.sum()):
            yield path


def slot_of(key: Key, values: Tensor, rows: int, width: int | None = None) -> Slot:
    """Of an argument ``[steps, ...]`` that is the entry ``key``, ``width`` numbers for each env."""
    shape = tuple(values.shape[1:])
    axis = _axis(shape, rows, width)
    rest = tuple(size for dim, size in enumerate(shape) if dim != axis)
    return Slot(key, axis, rest, values.dtype)


def _axis(shape: tuple[int, ...], rows: int, width: int | None = None) -> int | None:
    """The dimension of the envs: of a state with three, the second, as torch's layers have it."""
    fitting = [dim for dim, size in enumerate(shape) if size == rows]
    if width is not None:  # what is observed, or one number, stands behind the envs
        fitting = [dim for dim in fitting if int(np.prod(shape[dim + 1 :])) == width]
        return fitting[0] if fitting else None
    if len(shape) == 3 and 1 in fitting:
        return 1
    return fitting[0] if fitting else None
