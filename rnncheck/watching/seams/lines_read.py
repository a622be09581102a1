"""What lines of a user's loop read and take out of their batch, so that they can be run again."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.keys import tensor_keys
from rnncheck.watching.seams.lines import Lines, bound_by
from rnncheck.watching.seams.reads import read_first

_NUMBERS = (bool, int, float)
_MOST_UPDATES = 4  # that are told apart by their numbers; chosen: actors wait for every second one


def begins_at(lines: Lines) -> int:
    """Of the lines in their file."""
    code = lines.function.__code__
    return int(code.co_firstlineno)


def reads_of_steps(lines: Lines, shape: torch.Size) -> set[str]:
    """Names of what the lines read as it was that has something for each step of a batch of this
    shape."""
    held: Mapping[str, Any] = getattr(lines.function, "__kwdefaults__", None) or {}
    names = getattr(lines.function, "__globals__", {})  # a script's own lines read these
    read = {name: held.get(name, names.get(name)) for name in read_first(list(lines.body))}
    return {name for name, one in read.items() if name != lines.batch and _is_of(one, shape)}


def _is_of(value: Any, shape: torch.Size) -> bool:
    if isinstance(value, nn.Parameter) or not isinstance(value, (Tensor, TensorDictBase)):
        return False
    return len(shape) > 0 and value.shape[: len(shape)] == shape


def keys_read(lines: Lines, batch: TensorDictBase) -> list[tuple[str, str]]:
    """The variables of lines that are keys of the batch, such as a group of agents: with another
    one they are another loss."""
    return keys_among(getattr(lines.function, "__kwdefaults__", None) or {}, batch)


def keys_among(held: Mapping[str, Any], batch: TensorDictBase) -> list[tuple[str, str]]:
    """By name those that are one."""
    texts = {name: one for name, one in held.items() if type(one) is str}
    keys = {part for key in tensor_keys(batch) for part in key} if texts else set()
    return sorted((name, one) for name, one in texts.items() if one in keys)


class NumbersByUpdate:
    """The plain numbers that frames hold where they call ``backward``, such as a count of
    updates."""

    def __init__(self) -> None:
        self._noted = dict[tuple[CodeType, int], list[dict[str, Any]]]()

    def note(self, stack: Iterable[FrameType]) -> None:
        """Each of these is about to."""
        for frame in stack:
            noted = self._noted.setdefault((frame.f_code, frame.f_lineno), [])
            if len(noted) < _MOST_UPDATES:
                held = frame.f_locals.items()
                noted.append({name: one for name, one in held if type(one) in _NUMBERS})

    def read_by(self, lines: Lines, frame: FrameType) -> list[dict[str, Any]]:
        """Those that the lines of the frame read as they were, by update."""
        held: Mapping[str, Any] = getattr(lines.function, "__kwdefaults__", None) or {}
        noted = self._noted.get((frame.f_code, frame.f_lineno), ())
        return [{name: one for name, one in each.items() if name in held} for each in noted]


def taken_out(frame: FrameType, lines: Lines) -> dict[str, Tensor]:
    """What the lines have taken out of the batch by its key, and hold under a name."""
    pairs = ((key, frame.f_locals.get(name)) for key, name in _taken(lines))
    return {key: one.detach() for key, one in pairs if isinstance(one, Tensor)}


def _taken(lines: Lines) -> Iterator[tuple[str, str]]:
    """``name = batch.pop("key")``, without names that are bound again."""
    bound = [name for one in lines.body for name in bound_by(one)]
    for one in lines.body:
        call = one.value if isinstance(one, ast.Assign) else None
        name = next(bound_by(one), "")
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        owner, key = call.func.value, call.args[0] if len(call.args) == 1 else None
        pops = call.func.attr == "pop" and not call.keywords and bound.count(name) == 1
        mine = isinstance(owner, ast.Name) and owner.id == lines.batch
        if pops and mine and isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, name


def with_taken(td: TensorDictBase, taken: Mapping[str, Tensor]) -> TensorDictBase:
    """The batch with what was taken out of it, where that has its shape."""
    have = {key for key in tensor_keys(td) if len(key) == 1}
    for key, value in taken.items():
        if (key,) not in have and value.shape[: td.ndim] == td.shape:
            td = td.copy().set(key, value.clone())
    return td
