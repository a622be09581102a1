"""The function of the user's in which a network ran on the tensordict that an env is then stepped
with: it acts where no network writes the action itself, but the function's lines do."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from tensordict import TensorDictBase

from rnncheck.watching.forms.called_policy import CalledPolicy
from rnncheck.watching.seams.frames import (
    decorated_with,
    frame_arguments,
    is_tensordict,
    method_of,
    their_frames,
)

_CALLS = 16  # that are remembered: who acts is settled by the first step


class ActingCallers:
    """Frames in which networks ran since the last step, of the first calls alone."""

    def __init__(self) -> None:
        self._frames, self._left = list[FrameType](), _CALLS

    def called(self, frame: FrameType) -> None:
        """A network is about to run on a tensordict, out of this frame."""
        if self._left:
            self._frames.append(frame)
            self._left -= 1

    def policy(self, data: TensorDictBase) -> CalledPolicy | None:
        """The outermost function that has returned by now and was given a tensordict of the form of
        ``data``, which the env was stepped with; frames are let go."""
        frames, self._frames = self._frames, []
        now = set(their_frames(sys._getframe(1)))
        for frame in reversed(frames):
            returned = [one for one in their_frames(frame) if one not in now]
            for one in reversed(returned):
                if _is_given(one, data) and (function := _function_of(one)) is not None:
                    return CalledPolicy(function)
        return None

    def forget(self) -> None:
        """The frames hold all that was in them."""
        self._frames.clear()


def _is_given(frame: FrameType, data: TensorDictBase) -> bool:
    given = [one for one in frame_arguments(frame).values() if is_tensordict(one)]
    return len(given) == 1 and given[0].batch_size == data.batch_size


def _function_of(frame: FrameType) -> Any:
    method = method_of(frame.f_code, frame_arguments(frame))
    function = method or decorated_with(frame.f_code, frame.f_globals)
    owner = getattr(function, "__self__", None)
    return owner if frame.f_code.co_name == "__call__" and owner is not None else function
