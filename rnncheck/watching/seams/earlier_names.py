"""What variables held before a script's lines have bound them anew, ahead of ``backward``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FrameType, MappingProxyType
from typing import Any

_MOST = 32  # frames: chosen, between a batch and its loss a script has few
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class EarlierNames:
    """The variables of the user's frames as they were when the first network was called in them,
    since the last step of an env or the last update: the values themselves, no copies."""

    def __init__(self) -> None:
        self._held = dict[FrameType, dict[str, Any]]()

    def note(self, stack: Sequence[FrameType]) -> None:
        """A network is about to be called in these frames."""
        for frame in stack:
            if frame not in self._held and len(self._held) < _MOST:
                self._held[frame] = dict(frame.f_locals)

    def of(self, frame: FrameType) -> Mapping[str, Any]:
        """What they were in this one; empty where no network was called in it."""
        return self._held.get(frame, _NOTHING)

    def forget(self) -> None:
        """The frames are let go, with all that was in them."""
        self._held.clear()
