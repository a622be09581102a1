"""Where running code makes its floats narrower, seen from outside: autocast regions and the user's
own lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rnncheck.numerics.rounding import BITS
from rnncheck.pipeline.guard.user_frames import display_path, is_user_file, read_frame
from rnncheck.results.model import Source


class Casts(TorchFunctionMode):
    """Inside the context, while ``watching``: the autocast dtype that is on, and the first line
    that narrows floats."""

    def __init__(self, device: str = "cpu") -> None:
        super().__init__()
        self.device = device
        self.watching = False
        self.autocast: torch.dtype | None = None
        self.line: Source | None = None

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.watching:
            self._look()
            if self.line is None and _narrows(result, args):
                self.line = _user_line()
        return result

    def watch(self, on: bool) -> None:
        """Begin or stop watching; a region that is on already counts."""
        self.watching = on
        if on:
            self._look()

    def _look(self) -> None:
        if self.autocast is None and torch.is_autocast_enabled(self.device):
            self.autocast = torch.get_autocast_dtype(self.device)


def _narrows(result: Any, args: tuple[Any, ...]) -> bool:
    made = [BITS[value.dtype] for value in _floats(result)]
    given = [BITS[value.dtype] for value in _floats(args)]
    return bool(made and given) and min(made) < max(given)


def _floats(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.dtype in BITS:
            yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _floats(item)


def _user_line() -> Source | None:
    frame = sys._getframe(1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    path, line, name = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    return Source(display_path(path), line, 0, "python", name, read_frame(path, line))
