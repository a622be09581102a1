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


def _marked(function: Function, role: str) -> Function:
    setattr(function, _MARK, role)
    return function


def policy_module(policy: Any, writes: list[Any]) -> Any:
    """The part of ``policy`` that writes these entries, for a critic that shares it: what a spec
    names as ``{factory: "rnncheck.roles:policy_module", writes: [embed]}``."""
    wanted = [_key(one) for one in writes]
    parts = [(part, getattr(part, "out_keys", None)) for part in policy.modules()]
    found = [part for part, keys in parts if keys and [_key(one) for one in keys] == wanted]
    if not found:
        raise ValueError(f"no part of the policy writes {writes}")
    return found[-1]  # the innermost: what holds it may write no more than it does


def _key(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
