"""Function modes that have nothing to see inside of a scan: they are set aside while one runs.
Beside a mode torch's scan is compiled and traced anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import overrides

OVERLOOKS = "overlooks_scans"  # an attribute of such a mode


@contextmanager
def _set_aside() -> Iterator[None]:
    """The innermost modes that overlook scans are off inside the context."""
    with ExitStack() as scope:
        while count := torch._C._len_torch_function_stack():
            mode = torch._C._get_function_stack_at(count - 1)
            if not getattr(mode, OVERLOOKS, False):
                break
            scope.enter_context(overrides._pop_mode_temporarily())
        yield


def unseen_by_overlookers(run: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which runs without these modes."""

    def ran(*args: Any, **kwargs: Any) -> Any:
        with _set_aside():
            return run(*args, **kwargs)

    return ran
