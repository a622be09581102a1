"""The user's line that called what is watched."""

from __future__ import annotations

import sys

from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import display_path, is_user_file


def calling_place(depth: int = 1) -> Place:
    """The innermost line of the user's on the stack, ``depth`` frames above; an empty place where
    there is none."""
    frame = sys._getframe(depth)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return Place(display_path(frame.f_code.co_filename), frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return Place("")
