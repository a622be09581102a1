"""What functions of the user's return: heard of by tracing, while they run and no longer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

Heard = Callable[[Any], None]


class _Paused(threading.local):
    """Whether the thread's tracing goes on later."""

    now = False


class FollowedCalls:
    """Follows single calls. Nothing else that runs meanwhile is traced; but Python runs several
    times slower where anything is, so that it is not while a module runs: none of them returns
    before that."""

    def __init__(self) -> None:
        self._followed = dict[FrameType, Heard]()
        self._paused = _Paused()

    def follow(self, frame: FrameType, heard: Heard) -> bool:
        """Call ``heard`` with what the frame returns, from the next ``resume`` on; False where
        somebody else traces."""
        if not self._followed:
            if sys.gettrace() is not None:
                return False
            self._paused.now = True
        self._followed[frame] = heard
        frame.f_trace_lines = False
        frame.f_trace = self._hear
        return True

    def pause(self) -> None:
        """A module is about to run."""
        if self._followed and sys.gettrace() is _nothing_new:
            sys.settrace(None)
            self._paused.now = True

    def resume(self) -> None:
        """It has run."""
        if self._followed and self._paused.now and sys.gettrace() is None:
            sys.settrace(_nothing_new)
            self._paused.now = False

    def __contains__(self, frame: FrameType) -> bool:
        return frame in self._followed

    def leave(self, frame: FrameType) -> None:
        """Follow it no longer."""
        if self._followed.pop(frame, None) is not None:
            frame.f_trace = None
            if not self._followed and sys.gettrace() is _nothing_new:
                sys.settrace(None)

    def stop(self) -> None:
        """Follow nothing any more."""
        for frame in list(self._followed):
            self.leave(frame)

    def _hear(self, frame: FrameType, event: str, result: Any) -> Any:
        if event != "return":
            return self._hear
        heard = self._followed.get(frame)
        self.leave(frame)
        if heard is not None:
            heard(result)
        return None


def _nothing_new(_frame: FrameType, _event: str, _arg: Any) -> None:
    """Calls that begin meanwhile are let run."""
