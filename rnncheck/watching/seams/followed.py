"""What functions of the user's return: heard of by tracing, while they run and no longer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import nn

Heard = Callable[[Any], None]


_CALLED = nn.Module._call_impl.__code__  # in which a module that runs tells that it does


class _Modules(threading.local):
    """How many run, one inside the other, in this thread, and whether its tracing goes on later. An
    exception that is no ``Exception`` leaves some uncounted: the numbers of one time are compared
    with each other alone."""

    inside = 0
    paused = False


class FollowedCalls:
    """Follows single calls. Nothing else that runs meanwhile is traced; but Python runs several
    times slower where anything is, so that it is not while a module runs that the innermost of them
    has called: none of them returns before that."""

    def __init__(self) -> None:
        self._followed = dict[FrameType, tuple[Heard, int]]()  # and in how many modules it is
        self._innermost = 0  # the most of these numbers
        self._modules = _Modules()

    def follow(self, frame: FrameType, heard: Heard) -> bool:
        """Call ``heard`` with what the frame returns, from the next ``resume`` in it on; False
        where somebody else traces."""
        if not self._followed:
            if sys.gettrace() is not None:
                return False
            self._modules.paused = True
        self._followed[frame] = heard, self._modules.inside - _modules_between(frame)
        self._count()
        frame.f_trace_lines = False
        frame.f_trace = self._hear
        return True

    def pause(self) -> None:
        """A module is about to run."""
        self._modules.inside += 1
        if self._followed and sys.gettrace() is _nothing_new:
            self._pause()

    def resume(self) -> None:
        """It has run, or raised."""
        modules = self._modules
        modules.inside -= 1
        if not self._followed or not modules.paused or modules.inside > self._innermost:
            return
        if sys.gettrace() is None:
            sys.settrace(_nothing_new)
            modules.paused = False

    def __contains__(self, frame: FrameType) -> bool:
        return frame in self._followed

    def leave(self, frame: FrameType) -> None:
        """Follow it no longer."""
        if self._followed.pop(frame, None) is not None:
            frame.f_trace = None
            self._count()
            if sys.gettrace() is not _nothing_new:
                return
            if not self._followed:
                sys.settrace(None)
            elif self._modules.inside > self._innermost:  # those left have called a module
                self._pause()

    def _count(self) -> None:
        self._innermost = 0
        for _, inside in self._followed.values():  # asked twice a step: told soon
            if inside > self._innermost:
                self._innermost = inside

    def _pause(self) -> None:
        sys.settrace(None)
        self._modules.paused = True

    def stop(self) -> None:
        """Follow nothing any more."""
        for frame in list(self._followed):
            self.leave(frame)

    def _hear(self, frame: FrameType, event: str, result: Any) -> Any:
        if event != "return":
            return self._hear
        found = self._followed.get(frame)
        self.leave(frame)
        if found is not None:
            found[0](result)
        return None


def _modules_between(frame: FrameType) -> int:
    """How many modules the frame has called, one inside the other, up to the one that is about to
    run."""
    count, inner = 0, sys._getframe(1)
    while inner is not frame and inner.f_back is not None:
        count += inner.f_code is _CALLED
        inner = inner.f_back
    return count


def _nothing_new(_frame: FrameType, _event: str, _arg: Any) -> None:
    """Calls that begin meanwhile are let run."""
