"""Calls of a user's function on tensors, beside ``env.step`` of a plain env: which of its arguments
is what, and the same call on tensordicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.structures import Path, leaves

OBSERVATION, FLAG, ACTION = "observation", "is_init", "action"
ENDS = ("terminated", "truncated", "reset")
MOSTLY = 0.9  # share of the steps at which an argument must be what it is taken for


@dataclass
class PlainCall:
    """One call; ``parts`` is what innermost parts of the networks gave in it."""

    code: CodeType
    function: Any
    arguments: dict[str, Any]
    result: Any = None
    parts: list[tuple[Any, Tensor]] = field(default_factory=list)


@dataclass
class PlainStep:
    """One step of a plain env: what it showed before, who acted, and what it gave."""

    env: Any
    seen: Any
    call: PlainCall
    action: Any
    after: Any  # what it showed at the end of the step, also where it was reset behind it
    reward: Any
    terminated: Any
    truncated: Any
    reset: Any  # where the env was reset inside the step, its action unread

    @property
    def rows(self) -> int:
        """How many envs run side by side."""
        return int(np.asarray(self.terminated).size)


@dataclass(frozen=True)
class Slot:
    """What a leaf of a call holds: the entry ``key`` of the step, for all envs along ``axis``."""

    key: Key
    axis: int | None  # None: there is one env, and no dimension for it
    rest: tuple[int, ...]  # the other dimensions
    dtype: torch.dtype
    array: bool = False  # the function has it as one of numpy's

    def given(self, value: Tensor) -> Any:
        """``[rows, ...]`` as the function wants it."""
        single = self.dtype == torch.float32  # in float64 all of it is
        rows = value.reshape(-1, *self.rest).to(torch.get_default_dtype() if single else self.dtype)
        whole = rows[0] if self.axis is None else rows.movedim(0, self.axis)
        return whole.detach().cpu().numpy() if self.array else whole

    def found(self, value: Tensor, lead: int = 0) -> Tensor:
        """What the function handles as ``[rows, ...]``; behind ``lead`` dimensions that come
        first, as ``[rows, *lead, ...]``."""
        return value.unsqueeze(0) if self.axis is None else value.movedim(lead + self.axis, 0)


@dataclass(frozen=True)
class ToldCall:
    """All leaves of the calls of one function. ``why`` is what of it could not be told."""

    arguments: dict[Path, Slot] = field(default_factory=dict)
    results: dict[Path, Slot] = field(default_factory=dict)
    rows: int = 1  # that it was called on
    why: str = ""

    @property
    def carry(self) -> dict[Key, Slot]:
        """The states that are handed on from call to call."""
        new = {slot.key[1:] for slot in self.results.values() if slot.key[0] == "next"}
        return {slot.key: slot for slot in self.arguments.values() if slot.key in new}


@dataclass(frozen=True)
class Columns:
    """What the steps of a loop held, ``[steps, ...]`` each; None for what no tensor holds.
    ``given`` and ``gave`` are leaves of the acting calls, None where their form changes."""

    rows: int
    name: str  # of the function that acts
    seen: Tensor | None
    action: Tensor | None
    done: Tensor  # [steps, rows]: an episode ended, or a new one was begun in the place of the step
    arrays: frozenset[Path]  # of ``given``, those that were numpy's
    given: dict[Path, Tensor | None]
    gave: dict[Path, Tensor | None]

    @property
    def width(self) -> int:
        """Numbers that one env shows."""
        return 0 if self.seen is None else self.seen[0].numel() // self.rows


def columns_of(steps: Sequence[PlainStep]) -> Columns:
    """Of steps that calls of one function acted in."""
    rows = steps[0].rows
    ends = [stacked([getattr(step, name) for step in steps]) for name in ENDS]
    flags = [one.reshape(len(steps), -1).bool() for one in ends if one is not None]
    return Columns(
        rows,
        steps[0].call.code.co_name,
        stacked([step.seen for step in steps]),
        stacked([step.action for step in steps]),
        torch.stack([one.expand(len(steps), rows) for one in flags]).any(0),
        frozenset(
            path for path, value in leaves(steps[0].call.arguments) if isinstance(value, np.ndarray)
        ),
        _leaves([step.call.arguments for step in steps], numbers=False),
        _leaves([step.call.result for step in steps]),
    )


def stacked(values: Sequence[Any]) -> Tensor | None:
    """``[steps, ...]`` of what an env takes or gives."""
    try:
        return torch.as_tensor(np.stack([np.asarray(value) for value in values]))
    except (TypeError, ValueError):  # an env may show anything
        return None


def _leaves(values: Sequence[Any], *, numbers: bool = True) -> dict[Path, Tensor | None]:
    """The tensors and arrays in them, and the ``numbers``, by the way there; None for one whose
    form changes."""
    held = [dict(leaves(value)) for value in values]
    found = dict[Path, Tensor | None]()
    for path, first in held[0].items():
        if not numbers and isinstance(first, (bool, int, float)):
            continue  # such as a rate of exploration
        column = [leaf_tensor(one.get(path)) for one in held]
        tensors = [one for one in column if one is not None]
        if len(tensors) == len(column):
            alike = len({one.shape for one in tensors}) == 1
            found[path] = torch.stack(tensors).detach().cpu() if alike else None
    return found


def leaf_tensor(value: Any) -> Tensor | None:
    """A tensor, an array or a number as a tensor."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        try:
            return torch.as_tensor(value)
        except TypeError:  # of what is no number
            return None
    return None


def told_call(steps: Columns) -> ToldCall:
    """What each argument and result of the acting calls is, by what they held."""
    name = steps.name
    arguments, results = dict[Path, Slot](), dict[Path, Slot]()
    for path, values in steps.given.items():
        key = None if values is None else _known(steps, values)
        source = None if values is None or key else _carried(steps, values)
        if values is not None and key is not None:
            width = 1 if key == (FLAG,) else steps.width
            slot = _slot(key, values, steps.rows, width)
            arguments[path] = replace(slot, array=path in steps.arrays)
        elif values is not None and source is not None:
            key = ("_".join(path),)
            slot = _slot(key, values, steps.rows)
            arguments[path] = replace(slot, array=path in steps.arrays)
            results[source] = _slot(("next", *key), values, steps.rows)
        elif values is None or not bool((values == values[0]).all()):
            return ToldCall(
                why=f"the argument `{'.'.join(path)}` of `{name}` is neither what the env"
                " showed, nor what the call before returned, nor always the same"
            )
    for path, values in steps.gave.items():
        if path in results or values is None:
            continue
        if _same(values, steps.action):
            results[path] = _slot((ACTION,), values, steps.rows, 1)
        elif values.is_floating_point() and steps.rows in values.shape[1:]:
            results[path] = _slot(("_".join((name, *path)),), values, steps.rows)
    keys = {slot.key for slot in arguments.values()}
    if (OBSERVATION,) not in keys:
        return ToldCall(why=f"no argument of `{name}` is what the env showed")
    if not any(key[0] == "next" for key in (slot.key for slot in results.values())):
        return ToldCall(why=f"`{name}` is not given a state that its call before returned")
    return ToldCall(arguments, results, steps.rows)


def _known(steps: Columns, values: Tensor) -> Key | None:
    """The entry that the env gave."""
    if _same(values, steps.seen):
        return (OBSERVATION,)
    if len(values) > 1 and _same(values[1:], steps.done[:-1]):
        return (FLAG,)
    return None


def _same(values: Tensor, others: Tensor | None) -> bool:
    if others is None:
        return False
    mine, wanted = (one.reshape(len(values), -1) for one in (values, others))
    return mine.shape == wanted.shape and torch.equal(mine, wanted.to(mine.dtype))


def _carried(steps: Columns, values: Tensor) -> Path | None:
    """The result of the call before that the argument holds, where no episode ended between."""
    axis = _axis(tuple(values.shape[1:]), steps.rows)
    goes_on = ~steps.done[:-1]
    for path, gave in steps.gave.items():
        if gave is None or gave.shape != values.shape:
            continue
        same = values[1:] == gave[:-1]
        lanes = same.unsqueeze(1) if axis is None else same.movedim(1 + axis, 1)
        equal = lanes.reshape(*goes_on.shape, -1).all(2) & goes_on
        if goes_on.any() and int(equal.sum()) >= MOSTLY * int(goes_on.sum()):
            return path
    return None


def _slot(key: Key, values: Tensor, rows: int, width: int | None = None) -> Slot:
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
