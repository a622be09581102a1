"""What functions of the user's return: heard of by tracing, while they run and no longer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

Heard = Callable[[Any], None]


class FollowedCalls:
    """Follows single calls. Nothing else that runs meanwhile is traced."""

    def __init__(self) -> None:
        self._followed = dict[FrameType, Heard]()

    def follow(self, frame: FrameType, heard: Heard) -> bool:
        """Call ``heard`` with what the frame returns; False where somebody else traces."""
        if not self._followed:
            if sys.gettrace() is not None:
                return False
            sys.settrace(_nothing_new)
        self._followed[frame] = heard
        frame.f_trace_lines = False
        frame.f_trace = self._hear
        return True

    def __contains__(self, frame: FrameType) -> bool:
        return frame in self._followed

    def leave(self, frame: FrameType) -> None:
        """Follow it no longer."""
        if self._followed.pop(frame, None) is not None:
            frame.f_trace = None
            if not self._followed:
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
