"""Who acts where no function returns the action: the lines of the loop ahead of ``env.step``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np
from torch import Tensor, nn

from rnncheck.pipeline.copying.closures import is_own_instance
from rnncheck.pipeline.keys import Key
from rnncheck.watching.forms.plain_calls import PlainCall, has_graph
from rnncheck.watching.forms.structures import records
from rnncheck.watching.seams.acting_block import (
    TAKEN,
    ActingBlock,
    acting_block,
    acting_function,
)
from rnncheck.watching.seams.frames import is_tensordict
from rnncheck.watching.seams.owners import cloned

_LARGEST = 65_536  # numbers of one variable: what acts holds no more, a storage may
_MOST_PARTS = 16  # of a tuple or a dict; a list of every step has more
_MOST_NOTED = 16  # calls of networks ahead of the first step, by their line


class _Data:
    """The data that an object held."""

    def __init__(self, held: Mapping[str, Any]) -> None:
        vars(self).update(held)


@dataclass(frozen=True)
class _Noted:
    """What a frame held when it was about to call a network in this line."""

    frame: FrameType
    line: int
    held: Mapping[str, Any]
    parts: int  # that had given something by then


_Passage = tuple[list[_Noted], list[tuple[Any, Tensor]], tuple[PlainCall, ActingBlock] | None]


class LinesThatAct:
    """Makes a call of each passage through the lines between two steps of the env."""

    def __init__(self) -> None:
        self.entry: Key = ()  # of what ``env.step`` gets, the action, where that is a tensordict
        self.wanted = True  # until a function of the user's returns an action
        self._blocks = dict[tuple[CodeType, int], tuple[ActingBlock, FunctionType]]()
        self._noted = list[_Noted]()
        self._parts = list[tuple[Any, Tensor]]()  # what parts of networks gave since the first
        self._running: tuple[PlainCall, ActingBlock] | None = None
        self._before: _Passage = [], [], None

    @property
    def running(self) -> PlainCall | None:
        """The passage that is under way."""
        return None if self._running is None else self._running[0]

    def gave(self, part: Any, result: Tensor) -> None:
        """An innermost part has run."""
        into = self._parts if self._running is None else self._running[0].parts
        if (self._noted or self._running) and len(into) < _MOST_NOTED:
            into.append((part, result.detach()))

    @property
    def waits(self) -> bool:
        """Whether the next call of a network may be the first of a passage."""
        return self.wanted and self._running is None

    def calls(self, stack: Sequence[FrameType]) -> None:
        """A network is about to be called out of these frames of the user's."""
        for frame in stack:
            if found := self._blocks.get((frame.f_code, frame.f_lineno)):
                self._running = self._call(*found, frame.f_locals), found[0]
                return
        if not self._blocks and len(self._noted) < _MOST_NOTED:
            self._note(stack)

    @property
    def heard(self) -> bool:
        """Whether a network was called since the last step."""
        return bool(self._noted) or self._running is not None

    def made(self, call: PlainCall) -> bool:
        """Whether it is such a passage."""
        return any(block.code is call.code for block, _ in self._blocks.values())

    def drawn(self, call: PlainCall | None) -> frozenset[str]:
        """By which names the passage's result holds what each env's action is made of."""
        made = (block for block, _ in self._blocks.values() if call and block.code is call.code)
        return next((block.drawn for block in made), frozenset())

    def stepped(
        self, stack: Sequence[FrameType], action: Any, *, again: bool = False
    ) -> PlainCall | None:
        """The passage that led to ``env.step`` of the innermost of these frames, or through any of
        them where envs are stepped by turns: this one ``again`` on what led to the last step."""
        if again:
            self._noted, self._parts, self._running = self._before
        self._before = self._noted, self._parts, self._running
        running = self._running
        for frame in stack if again else _outside_envs(stack):
            if running is None and not self._blocks:
                running = self._first(frame, by_turns=again)
        self.forget()
        if running is None:
            return None
        call, block = running
        if again and call.result is not None:  # since then an env may have begun anew
            return call
        where = block.of, block.lines[1]
        within = next((one for one in stack if (one.f_code, one.f_lineno) == where), None)
        if within is None:
            return None
        found = {
            name: value
            for name, value in block.values(within.f_locals, block.stores).items()
            if _is_data(value)
        }
        call.result = cloned({**found, TAKEN: action})
        return call

    def forget(self) -> None:
        """Something else begins."""
        self._noted, self._parts, self._running = [], [], None

    def _note(self, stack: Sequence[FrameType]) -> None:
        for frame in stack:
            if not any((one.frame, one.line) == (frame, frame.f_lineno) for one in self._noted):
                self._noted.append(
                    _Noted(frame, frame.f_lineno, _snapshot(frame.f_locals), len(self._parts))
                )

    def _first(self, frame: FrameType, *, by_turns: bool) -> tuple[PlainCall, ActingBlock] | None:
        """The first passage, of which it is not known until now where it begins."""
        for one in self._noted:
            block = self._block(frame, one.line, by_turns) if one.frame is frame else None
            if block is not None:
                found = block, acting_function(block, frame)
                self._blocks[frame.f_code, one.line] = found
                call = self._call(*found, one.held)
                call.parts = self._parts[one.parts :]
                return call, block
        return None

    def _block(self, frame: FrameType, line: int, by_turns: bool) -> ActingBlock | None:
        return acting_block(frame, line, by_turns=by_turns, entry=self.entry)

    def _call(
        self, block: ActingBlock, function: FunctionType, seen: Mapping[str, Any]
    ) -> PlainCall:
        read = {n: one for n, one in block.values(seen, block.reads).items() if _is_data(one)}
        read |= {
            name: read[name].select(*keys, strict=False)
            for name, keys in block.entries.items()
            if is_tensordict(read.get(name))
        }
        given = {name: cloned(value) for name, value in read.items()}
        return PlainCall(block.code, function, given, graphed=has_graph(read))


def _outside_envs(stack: Sequence[FrameType]) -> Iterator[FrameType]:
    """The innermost frame; around one that is the ``step`` of an env of the user's, which steps
    others inside, that of its caller as well."""
    for frame in stack:
        yield frame
        owner = next(iter(frame.f_locals.values()), None) if frame.f_code.co_argcount else None
        if frame.f_code.co_name != "step" or not callable(getattr(owner, "reset", None)):
            return


def _snapshot(seen: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of the data among the variables, and of what objects of the user's hold of it."""
    found = dict[str, Any]()
    for name, value in seen.items():
        if _is_data(value):
            found[name] = cloned(value)
        elif is_own_instance(value) and not isinstance(value, type):
            found[name] = _data_of(value)
    return found


def _data_of(value: Any) -> _Data:
    """And that of networks in it."""
    inner = value._modules if isinstance(value, nn.Module) else {}
    held = {**getattr(value, "__dict__", {}), **inner}.items()
    nets = {k: v for k, v in held if isinstance(v, nn.Module) and is_own_instance(v)}
    data = {k: cloned(v) for k, v in held if _is_data(v)}
    return _Data(data | {k: _Data(_data_held(net)) for k, net in nets.items()})


def _data_held(owner: Any) -> dict[str, Any]:
    return {name: cloned(one) for name, one in vars(owner).items() if _is_data(one)}


def _is_data(value: Any) -> bool:
    """Whether it may be what the env showed, a state or a flag."""
    if value is None or isinstance(value, (bool, int, float, np.generic)):
        return True
    if isinstance(value, Tensor):
        return value.numel() <= _LARGEST
    if isinstance(value, np.ndarray):
        return value.size <= _LARGEST and value.dtype != object
    parts = records(value)
    return 0 < len(parts) <= _MOST_PARTS and all(map(_is_data, parts.values()))
