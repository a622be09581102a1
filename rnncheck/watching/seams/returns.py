"""Which functions of the script returned what a spec names, until somebody acts with it."""

from __future__ import annotations

import inspect
import sys
from contextlib import ExitStack
from types import FrameType, FunctionType
from typing import Any

from torch import nn

from rnncheck.pipeline.guard.user_frames import is_user_file
from rnncheck.watching.observer import Watching


class Returns:
    """Listens to Python's returns, where nobody else does, from the first part that is made on."""

    def __init__(self, watching: Watching, scope: ExitStack) -> None:
        self._watching, self._hook = watching, self._heard
        scope.callback(self._stop)

    def listen(self) -> None:
        """Begin, unless it is too late: training is not to be slowed down."""
        if sys.getprofile() is None and not self._over():
            sys.setprofile(self._hook)

    def _over(self) -> bool:
        seen = self._watching.seen
        return bool(seen.acting or seen.env_steps or seen.frozen or self._watching.enough)

    def _stop(self) -> None:
        if sys.getprofile() is self._hook:
            sys.setprofile(None)

    def _heard(self, frame: FrameType, event: str, value: Any) -> None:
        if self._over():
            self._stop()
        elif event == "return" and isinstance(value, nn.Module):
            self._note(frame, value)

    def _note(self, frame: FrameType, value: nn.Module) -> None:
        seen, code = self._watching.seen, frame.f_code
        function = frame.f_globals.get(code.co_name)
        if not isinstance(function, FunctionType) or function.__code__ is not code:
            return
        if id(value) not in seen.parts or not is_user_file(code.co_filename):
            return
        told = inspect.getargvalues(frame)
        if not told.locals.get(told.varargs or ""):
            given = {name: told.locals[name] for name in told.args if name in told.locals}
            given |= told.locals.get(told.keywords or "", {})
            seen.returned.setdefault(id(value), []).append((function, given))
