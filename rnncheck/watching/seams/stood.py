"""Where a loop stands when it steps an env, and what its variables hold then."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

from rnncheck.watching.seams.containers import ContainersIn, HeldBy
from rnncheck.watching.seams.earlier_names import EarlierNames


class StoodAt:
    """Of the frames around each step the latest. It is asked with every call of a network: to hash
    a frame's code takes longer than all else here, so that goes by identity."""

    def __init__(self) -> None:
        self._codes = dict[int, CodeType]()  # by their ids
        self._lines, self._containers = dict[CodeType, int](), dict[CodeType, dict[str, Any]]()
        self._containers_in = ContainersIn()
        self._standing = list[tuple[CodeType, int]]()
        self._holding = list[tuple[CodeType, dict[str, Any]]]()
        self._waited = False  # since the last step
        self.earlier = EarlierNames()  # than now, behind the last step
        self.frames = list[FrameType]()  # of the last step, innermost first: they may have returned

    def steps(self, stack: Sequence[FrameType]) -> None:
        """An env is stepped out of these frames, innermost first."""
        standing = [(frame.f_code, frame.f_lasti) for frame in stack]
        if standing != self._standing:
            self._containers.update(self._holding)
            self._standing = standing
            self._codes |= {id(frame.f_code): frame.f_code for frame in stack}
            self._lines |= {frame.f_code: frame.f_lineno for frame in stack}
        waiting = len(stack) == len(self.frames) and standing == self._standing
        waiting = waiting and all(map(operator.is_, stack, self.frames))
        self._holding, self._waited = self._containers_in(stack, waiting), False
        self.frames = list(stack)
        self.earlier.forget()

    def __contains__(self, code: CodeType) -> bool:
        """Whether an env was stepped out of it."""
        return id(code) in self._codes

    def goes_on(self) -> None:
        """Something is called behind the last step: what objects hold by now beside containers."""
        if self._waited:
            return
        self._waited = True
        later = dict(self._containers_in(self.frames))
        for code, held in self._holding:
            for name, one in held.items():
                other = later.get(code, {}).get(name)
                if isinstance(one, HeldBy) and isinstance(other, HeldBy):
                    held[name] = one.with_data(other)

    def is_behind(self, stack: Sequence[FrameType]) -> bool:
        """Whether the innermost of the frames around the last step that is still on the stack goes
        on behind it, and not with the next round of its loop."""
        for frame, (_, at) in zip(self.frames, self._standing, strict=False):
            if frame in stack:
                return frame.f_lasti > at
        return False

    @property
    def lines(self) -> Mapping[CodeType, int]:
        """By code that steps, the line that it does it in."""
        return self._lines

    @property
    def containers(self) -> Mapping[CodeType, Mapping[str, Any]]:
        """Of that code, at the last step."""
        self._containers.update(self._holding)
        return self._containers
