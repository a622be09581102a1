"""The user's line that called what is watched."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache

from rnncheck.errors import Place
from rnncheck.pipeline.guard.user_frames import count_as_theirs, display_path, is_user_file

is_theirs = cache(is_user_file)  # a file is looked at once


def run_as_a_module(folders: Iterable[str]) -> None:
    """Files in these folders are the user's as well, wherever they are installed."""
    count_as_theirs(folders)
    is_theirs.cache_clear()


def calling_place(depth: int = 1) -> Place:
    """The innermost line of the user's on the stack, ``depth`` frames above; an empty place where
    there is none."""
    frame = sys._getframe(depth)
    while frame is not None:
        if is_theirs(frame.f_code.co_filename):
            return Place(display_path(frame.f_code.co_filename), frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return Place("")
