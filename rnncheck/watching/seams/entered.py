"""Which modes the script has set around what runs: in which frame, and in which line of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torchrl.modules import set_recurrent_mode

from rnncheck.watching.observer import Watching
from rnncheck.watching.seams.frames import depth_of
from rnncheck.watching.seams.patching import replace


@dataclass(frozen=True)
class EnteredMode:
    """``with set_recurrent_mode(recurrent):`` in ``line`` of a frame that lies ``depth`` frames
    behind the outermost one."""

    recurrent: bool | None
    depth: int
    line: int


class EnteredModes:
    """Those that are open now, the innermost last."""

    def __init__(self, watching: Watching, scope: ExitStack) -> None:
        self._watching = watching
        self._open = list[tuple[int, EnteredMode]]()
        replace(scope, set_recurrent_mode, "__enter__", self._entered)
        replace(scope, set_recurrent_mode, "__exit__", self._left)

    def now(self) -> tuple[EnteredMode, ...]:
        """All of them."""
        return tuple(one for _, one in self._open)

    def _entered(self, original: Callable[..., Any], made: Any, *args: Any) -> Any:
        if self._watching.looks:
            frame = sys._getframe(2)
            one = EnteredMode(made.mode, depth_of(frame), frame.f_lineno)
            self._open.append((id(made), one))
        return original(made, *args)

    def _left(self, original: Callable[..., Any], made: Any, *args: Any) -> Any:
        places = [number for number, (own, _) in enumerate(self._open) if own == id(made)]
        if places:
            del self._open[places[-1] :]
        return original(made, *args)


def mode_around(entered: tuple[EnteredMode, ...], depth: int, line: int = 0) -> bool | None:
    """The mode that a frame was called in; with ``line`` the one that its lines from there on are
    run in. None where the script has set none."""
    found = None
    for one in entered:
        if one.depth < depth or (one.depth == depth and one.line < line):
            found = one.recurrent
    return found
