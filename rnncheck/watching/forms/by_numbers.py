"""What reads a count that an object of the user's keeps, such as one of its updates: called as it
was when the count was another."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rnncheck.pipeline.copying.closures import is_own_instance

_NUMBERS = (bool, int, float)
_MOST = 6  # times that are told apart; chosen: actors wait for every second update


def plain_numbers(owner: Any) -> dict[str, Any]:
    """The plain numbers that it holds."""
    held = getattr(owner, "__dict__", {})
    return {name: one for name, one in held.items() if type(one) in _NUMBERS}


def with_numbers(
    function: Callable[..., Any], owner: Any, numbers: Mapping[str, Any]
) -> Callable[..., Any]:
    """The function, which finds these in ``owner`` and leaves it as it was; itself where those are
    what it finds anyhow."""
    if not numbers:
        return function
    return functools.partial(_called, function, owner, dict(numbers))


def bare(function: Any) -> Any:
    """The function, where it is one that finds other numbers."""
    if isinstance(function, functools.partial) and function.func is _called:
        return function.args[0]
    return function


class Counts:
    """What objects of the user's count, seen at several times."""

    def __init__(self) -> None:
        self._seen = dict[int, tuple[Any, list[dict[str, Any]]]]()  # by the object's id

    def note(self, held: Iterable[Any]) -> None:
        """These are about to train."""
        for one in held:
            if is_own_instance(one) and (numbers := plain_numbers(one)):
                told = self._seen.setdefault(id(one), (one, []))[1]
                if len(told) < _MOST and numbers not in told:
                    told.append(numbers)

    def ways(self, function: Callable[..., Any]) -> list[Callable[..., Any]]:
        """The function with each of the numbers that have changed since."""
        found = list[Callable[..., Any]]()
        for owner, told in self._seen.values():
            changed = {k for one in told for k in one if told[0].get(k) != one[k]}
            for one in told if changed else ():
                counted = {name: one[name] for name in changed if name in one}
                found.append(with_numbers(function, owner, counted))
        return found


def _called(
    function: Callable[..., Any],
    owner: Any,
    numbers: Mapping[str, Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    before = {name: one for name, one in vars(owner).items() if name in numbers}
    vars(owner).update(numbers)
    try:
        return function(*args, **kwargs)
    finally:
        vars(owner).update(before)
