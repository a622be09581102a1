"""Which of the user's frames were looked into for batches already: none is twice in one place."""

from __future__ import annotations

import inspect
from types import FrameType

from rnncheck.watching.seams.frames import their_frames

_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR  # by anyone
# Modules in a row, on no tensordict, in whose frames no batch was: between two updates there is
# none at the next ones either, as in a loop on plain tensors over the steps of a rollout. Chosen.
_IN_VAIN = 256


class LookedInto:
    """The user's stack as it was last looked into, outermost first, and where in its frames."""

    def __init__(self) -> None:
        self._at = dict[FrameType, set[int]]()
        self._vain = 0

    @property
    def in_vain(self) -> bool:
        """Whether it is no use to look again, until all is forgotten."""
        return self._vain >= _IN_VAIN

    def gave(self, *, batches: bool) -> None:
        """What was looked into last held some, or none."""
        self._vain = 0 if batches else self._vain + 1

    def further_on(self, innermost: FrameType) -> list[FrameType]:
        """The user's frames that are somewhere else than when they were last looked into, innermost
        first. What a frame that was there already was called by has not gone on since."""
        looked, found = self._at, list[FrameType]()
        for frame in their_frames(innermost):
            known = looked.get(frame, ())
            if frame.f_lasti not in known:
                found.append(frame)
            if known and not frame.f_code.co_flags & _RESUMED:
                while next(reversed(looked)) is not frame:  # they have returned
                    looked.popitem()
                break
        else:
            looked.clear()
        for frame in reversed(found):
            looked.setdefault(frame, set()).add(frame.f_lasti)
        return found

    def forget(self) -> None:
        """The frames are let go: they hold all that was in them."""
        self._at.clear()
        self._vain = 0
