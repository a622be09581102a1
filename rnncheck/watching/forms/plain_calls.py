"""Calls of a user's function on tensors, beside ``env.step`` of a plain env: which of its arguments
is what, and the same call on tensordicts."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import CodeType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.held_as import TENSORS, Scale, handed
from rnncheck.watching.forms.held_states import states_again, with_states_inside
from rnncheck.watching.forms.own_generators import drawn_from_the_global_one
from rnncheck.watching.forms.structures import LEAVES, Path, filled, leaves_in, records

LINES = "lines_that_act"  # what a function is called that is made of lines of the user's
OWNER = "self"  # the way to what the owner of a method holds
OBSERVATION, FLAG, ACTION = "observation", "is_init", "action"
_NUMBERS = (bool, int, float)
REWARD_BEFORE: Key = ("reward_before",)  # what a loop shows the policy of the step before
ACTION_BEFORE: Key = ("action_before",)  # one-hot, or a number
# The entries of that step that they are.
OF_STEP_BEFORE: dict[Key, Key] = {REWARD_BEFORE: ("next", "reward"), ACTION_BEFORE: (ACTION,)}
MASK_OF_ROWS: Key = ("mask",)  # of rows that zeros follow: whether a step is one
WEIGHT_OF_ROWS: Key = ("priority_weight",)  # as TorchRL's memories call it
ENDS = ("terminated", "truncated", "reset")
MOSTLY = 0.9  # share of the steps at which an argument must be what it is taken for


Cast = tuple[str, torch.dtype] | None


@dataclass
class PlainCall:
    """One call; ``parts`` is what innermost parts of the networks gave in it."""

    code: CodeType
    function: Any
    arguments: dict[str, Any]
    result: Any = None
    owner: Any = None  # of a method
    before: dict[str, Any] = field(default_factory=dict)  # what the owner held that may be a state
    after: dict[str, Any] = field(default_factory=dict)  # the same behind the call
    parts: list[tuple[Any, Tensor]] = field(default_factory=list)
    graphed: bool = False  # it was given something that has a graph: a state that is not detached
    cast: Cast = None  # the autocast that a network was called in
    forgets: bool | None = None  # recurrent layers ran in it, on one step from zeros alone

    @property
    def holder(self) -> Any:
        """What may hold a state: the owner of a method, or a function, which reads some by name."""
        return self.function if self.owner is None else self.owner


def cast_now() -> Cast:
    """The device and the type that autocast computes in here; None where it is off."""
    for one in ("cpu", "cuda"):
        if torch.is_autocast_enabled(one):
            return one, torch.get_autocast_dtype(one)
    return None


def run_call(call: PlainCall, values: Mapping[Path, Any]) -> dict[Path, Any]:
    """What the function gives with other ``values``, by the way there; a state that its owner holds
    is read and written on a copy of that."""
    given = {path: value for path, value in values.items() if path[0] != OWNER}
    own = {path[1:]: value for path, value in values.items() if path[0] == OWNER}
    function, owner = call.function, call.holder
    if own:
        owner = with_states_inside(call.holder, filled(call.before, own))
        whole = call.function is call.holder
        function = owner if whole else MethodType(call.function.__func__, owner)
    with (
        counters_kept(function, owner),
        drawn_from_the_global_one(function, owner, call.arguments),
        nullcontext() if call.cast is None else torch.autocast(*call.cast),
    ):
        found = dict(leaves_in(function(**filled(call.arguments, given))))
    like = {name: call.before[name] for name in dict.fromkeys(path[0] for path in own)}
    held = states_again(owner, like)
    return found | {(OWNER, *path): value for path, value in leaves_in(held)}


def held_states(call: PlainCall) -> dict[str, Any]:
    """What the owner held before the call that may be a state, as far as the call changed it."""
    return {
        name: one
        for name, one in call.before.items()
        if name in call.after and not same_leaves(one, call.after[name])
    }


def same_leaves(one: Any, other: Any) -> bool:
    """Whether both hold the same, in the same parts."""
    mine, others = dict(leaves_in(one)), dict(leaves_in(other))
    if mine.keys() != others.keys():
        return False
    pairs = ((mine[path], others[path]) for path in mine)
    return all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a is b
        for a, b in pairs
    )


@contextmanager
def counters_kept(function: Any, owner: Any) -> Iterator[None]:
    """Plain numbers that the function counts up, such as those that exploration falls with, are as
    they were behind the context: among its globals and in its owner."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    names = getattr(inner, "__globals__", {})
    stored = _globals_stored(inner.__code__) if names else frozenset()
    held = [(names, name) for name in stored if type(names.get(name)) in _NUMBERS]
    own = getattr(owner, "__dict__", {})
    held += [(own, name) for name, value in own.items() if type(value) in _NUMBERS]
    before = [(where, name, where[name]) for where, name in held]
    try:
        yield
    finally:
        for where, name, value in before:
            where[name] = value


@functools.cache
def _globals_stored(code: CodeType) -> frozenset[str]:
    told = dis.get_instructions(code)
    return frozenset(one.argval for one in told if one.opname == "STORE_GLOBAL")


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
    way: str = ""  # what was made of the action ahead of the env
    beside: list[PlainCall] = field(default_factory=list)  # behind it, ahead of the next one
    updates: int = 0  # that came before it

    @property
    def rows(self) -> int:
        """How many envs run side by side."""
        return int(np.asarray(self.terminated).size)

    @property
    def lead(self) -> tuple[int, ...]:
        """The dimension of envs that stands ahead of what is shown, if there is one."""
        return tuple(np.shape(self.terminated)[:1])


def narrowed(step: PlainStep, part: tuple[int, ...]) -> PlainStep:
    """The step, as if the env showed these numbers alone."""
    lead = (step.rows,) if step.rows > 1 else ()
    seen, after = (
        np.asarray(one).reshape(*lead, -1)[..., list(part)] for one in (step.seen, step.after)
    )
    return replace(step, seen=seen, after=after)


@dataclass(frozen=True)
class Slot:
    """What a leaf of a call holds: the entry ``key`` of the step, for all envs along ``axis``."""

    key: Key
    axis: int | None  # None: there is one env, and no dimension for it
    rest: tuple[int, ...]  # the other dimensions
    dtype: torch.dtype
    of_what: str = TENSORS
    none: Path | None = None  # what the function has in the place of zeros, if it is None
    scale: Scale | None = None  # a and b of a x + b: masks are the opposite of flags
    listed: bool = False  # one for each env

    def given(self, value: Tensor) -> Any:
        """``[rows, ...]`` as the function wants it."""
        if self.scale is not None:
            value = value.double() * self.scale[0] + self.scale[1]
        single = self.dtype == torch.float32  # in float64 all of it is
        rows = value.reshape(-1, *self.rest).to(torch.get_default_dtype() if single else self.dtype)
        whole = rows[0] if self.axis is None else rows.movedim(0, self.axis).contiguous()
        plain = self.of_what == TENSORS and not self.listed
        return whole if plain else handed(whole, self.of_what, listed=self.listed)

    def found(self, value: Tensor, lead: int = 0) -> Tensor:
        """What the function handles as ``[rows, ...]``; behind ``lead`` dimensions that come
        first, as ``[rows, *lead, ...]``."""
        if self.scale is not None:
            value = (value.double() - self.scale[1]) / self.scale[0]
            whole = not (self.dtype.is_floating_point or self.dtype == torch.bool)
            value = value.round().to(self.dtype) if whole else value
        return value.unsqueeze(0) if self.axis is None else value.movedim(lead + self.axis, 0)


@dataclass(frozen=True)
class OfStepBefore:
    """What a loop fills an argument with: the entry ``source`` of the step before, or its one-hot
    form; ``first`` at the first step of an episode, unless what was there ``stays``, or something
    that is ``drawn``, such as this."""

    source: Key
    one_hot: bool = False
    stays: bool = False
    first: float = 0.0
    drawn: Tensor | None = field(default=None, compare=False)

    def begins_with(self, slot: Slot) -> Tensor:
        """What an episode begins with, of one env."""
        if self.drawn is not None:
            return self.drawn.reshape(slot.rest).to(slot.dtype)
        return torch.full(slot.rest, self.first).to(slot.dtype)


@dataclass(frozen=True)
class ToldCall:
    """All leaves of the calls of one function. ``why`` is what of it could not be told."""

    arguments: dict[Path, Slot] = field(default_factory=dict)
    results: dict[Path, Slot] = field(default_factory=dict)
    rows: int = 1  # that it was called on
    action: tuple[Path, Slot] | None = None  # the result that is one, handed on or not
    why: str = ""
    before: dict[Key, OfStepBefore] = field(default_factory=dict)  # arguments that the loop fills

    @property
    def carry(self) -> dict[Key, Slot]:
        """The states that are handed on from call to call."""
        new = {slot.key[1:] for slot in self.results.values() if slot.key[0] == "next"}
        return {slot.key: slot for slot in self.arguments.values() if slot.key in new}

    @property
    def floating(self) -> dict[Key, torch.dtype]:
        """By entry, as which kind of floats the function gets it, where it gets it as no other."""
        kinds = dict[Key, set[torch.dtype]]()
        for slot in self.arguments.values():
            kinds.setdefault(slot.key, set()).add(slot.dtype)
        alone = {key: next(iter(found)) for key, found in kinds.items() if len(found) == 1}
        return {key: kind for key, kind in alone.items() if kind.is_floating_point}


def has_graph(value: Any) -> bool:
    """Whether a tensor in it was computed of what is trained."""
    kind = type(value)
    if kind in LEAVES or isinstance(value, Tensor):
        return isinstance(value, Tensor) and value.grad_fn is not None
    if kind is dict:
        return any(map(has_graph, value.values()))
    parts = value if kind is tuple or kind is list else records(value).values()
    return any(map(has_graph, parts))


def leaf_tensor(value: Any) -> Tensor | None:
    """A tensor, an array or a number as a tensor of the CPU, where such are compared."""
    if isinstance(value, Tensor):
        return value if value.is_cpu else value.cpu()
    if isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        try:
            return torch.as_tensor(value)
        except TypeError:  # of what is no number
            return None
    return None
