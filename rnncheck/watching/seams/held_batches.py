"""The batches that frames of the user's held when a network was called in them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn

from rnncheck.pipeline.keys import tensor_keys
from rnncheck.watching.forms.named_switches import Switches
from rnncheck.watching.seams.arguments import bound_anew, given_by_caller, parsed
from rnncheck.watching.seams.entered import EnteredMode
from rnncheck.watching.seams.frames import frame_arguments, owner_of
from rnncheck.watching.seams.lines import Lines, bound_by, loads_of
from rnncheck.watching.seams.reads import read_first, stored_by
from rnncheck.watching.seams.tails import holds_line
from rnncheck.watching.seen import Modes


@dataclass
class HeldBatches:
    """The batches that a frame of the user's held when the policy was called in it."""

    code: CodeType
    frame: FrameType
    line: int
    modes: Modes
    arguments: dict[str, Any]
    switches: Switches
    depth: int  # of the frame, from the outermost on
    batches: dict[str, TensorDictBase] = field(default_factory=dict)  # copies, by name
    entered: tuple[EnteredMode, ...] = ()  # modes that were set around the call
    since: int | None = None  # the line of a loss module's call, where its batch is that one
    stored: frozenset[str] = frozenset()  # batches that were put into a memory
    drawn: frozenset[str] = frozenset()  # and those that came out of one
    begun: Mapping[str, Any] = field(default_factory=dict)  # what may be states, by name


GivenTo = tuple[Any, HeldBatches, str]  # a function, and the batch by name


def of_the_memory(found: list[GivenTo], held: Iterable[HeldBatches]) -> list[GivenTo]:
    """The functions, without those whose batch was put into a memory, where another was drawn out
    of one inside of them: that is trained on."""
    depths = [one.depth for one in held if one.drawn]
    return [
        (function, one, name)
        for function, one, name in found
        if name not in one.stored or not any(depth >= one.depth for depth in depths)
    ]


def alike(found: Mapping[str, TensorDictBase], other: TensorDictBase | None) -> frozenset[str]:
    """The names of those that are the other one, or a view of it."""
    if other is None:
        return frozenset()
    return frozenset(name for name, td in found.items() if td is other or _shares(td, other))


def _shares(one: TensorDictBase, other: TensorDictBase) -> bool:
    key = next((key for key in tensor_keys(one) if other.get(key, None) is not None), None)
    if key is None:
        return False
    mine, theirs = (td.get(key).untyped_storage().data_ptr() for td in (one, other))
    return bool(mine == theirs != 0)


def of_a_part(found: list[GivenTo], stack: list[FrameType]) -> list[GivenTo]:
    """The functions, outermost first, from the one on that ``backward`` is called inside of with
    the smallest part of the batch: what the others do is one update after the other."""
    at, least = 0, found[0][1].batches[found[0][2]].numel() if found else 0
    for number, (_, held, name) in enumerate(found):
        part = held.batches[name].numel()
        if part < least and any(one is held.frame for one in stack):
            at, least = number, part
    return found[at:]


def holds_tensors(value: Any) -> bool:
    """Whether it may be a state: a tensor that is no weight, or a container."""
    is_weight = isinstance(value, nn.Parameter)
    return isinstance(value, (torch.Tensor, tuple, list, dict)) and not is_weight


def states_in(frame: FrameType, left: frozenset[str]) -> dict[str, Any]:
    """What the frame holds that may be a state, but what is ``left`` from the round before."""
    return {
        name: one for name, one in frame.f_locals.items() if name not in left and holds_tensors(one)
    }


def begun_with(lines: Lines, held: HeldBatches) -> dict[str, Any]:
    """What the lines read and bind anew, as it was when a network was first called in them: by
    ``backward`` it is another."""
    carried = read_first(list(lines.body)) & stored_by(lines.body)
    return {name: held.begun[name] for name in carried if name in held.begun}


@functools.cache
def about_to_be_bound(path: str, line: int) -> frozenset[str]:
    """The names that the statement under way gives a value, and does not read: what they hold until
    then is left from the round before."""
    tree = parsed(path)
    walked = () if tree is None else ast.walk(tree)
    around = [one for one in walked if isinstance(one, ast.Assign) and holds_line(one, line)]
    return frozenset(name for one in around for name in bound_by(one) if name not in loads_of(one))


def batches_given(frame: FrameType, found: dict[str, TensorDictBase]) -> dict[str, TensorDictBase]:
    """The batches, those that are parameters as the caller handed them over; without those of which
    that cannot be told."""
    if not found:
        return found
    arguments = frame_arguments(frame)
    anew = bound_anew(frame, [name for name in found if name in arguments])
    if not anew:
        return found
    bound = owner_of(frame.f_code, arguments) is not None
    first = {name: given_by_caller(frame, name, bound=bound) for name in anew}
    kept = {name: td for name, td in found.items() if name not in first}
    return kept | {name: td for name, td in first.items() if isinstance(td, TensorDictBase)}


def with_the_rest(function: Any, held: HeldBatches, batch: str) -> Any:
    """The function with the arguments that it was given beside the batch."""
    owner = getattr(function, "__self__", function if isinstance(function, nn.Module) else None)
    others = {k: v for k, v in held.arguments.items() if k != batch}
    rest = {k: v for k, v in others.items() if owner is None or v is not owner}
    names = list(held.arguments)
    if not rest or isinstance(function, nn.Module):
        return function
    first = [name for name in names[: names.index(batch)] if name in rest]
    if len(first) == names.index(batch) - (owner is not None):  # those before it are positional
        given = [rest.pop(name) for name in first]
        return partial(function, *given, **rest)
    return partial(function, **rest)
