"""Methods of a seam that never raise into the script."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast


class GivesUp(Protocol):
    """What may look no longer."""

    def give_up(self, error: Exception) -> None:
        """Follow nothing any more."""


_Method = TypeVar("_Method", bound=Callable[..., Any])


def harmless(method: _Method) -> _Method:
    """The method; where it raises, its owner looks no longer, and says why."""

    @functools.wraps(method)
    def heard(self: GivesUp, *args: Any) -> Any:
        try:
            return method(self, *args)
        except Exception as error:  # what a script does may be anything
            self.give_up(error)
            return None

    return cast("_Method", heard)
