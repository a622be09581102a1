"""What a function of the user's is, where its shape does not say it: marks that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
_MARK = "__rnncheck_role__"


def loss(function: Function) -> Function:
    """Mark the function that is the loss: what it returns, or calls ``backward`` on, is judged."""
    return _marked(function, "loss")


def batch(function: Function) -> Function:
    """Mark the function that makes the training batch out of collected data."""
    return _marked(function, "batch")


def role_of(function: Any) -> str:
    """What the function is marked as; nothing where it is not."""
    return str(getattr(function, _MARK, ""))


def guessed(function: Function) -> Function:
    """Mark a function that was put together by looking on: where it raises, that says nothing of
    the pipeline."""
    return _marked(function, "guess")


def _marked(function: Function, role: str) -> Function:
    setattr(function, _MARK, role)
    return function
