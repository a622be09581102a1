"""What was measured once and is asked for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rnncheck.checks.rule import CouldNotLook, Unanswered
from rnncheck.errors import StageError
from rnncheck.pipeline.copying.copies import CannotCopy
from rnncheck.pipeline.guard.timeout import Expired
from rnncheck.pipeline.subject.introspect import CannotStep

T = TypeVar("T")


class Memo:
    """Values by what they are and what they are about; a failure is remembered and raised again."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Any, Exception | None]] = {}

    def once(self, name: str, make: Callable[[], T], *about: object) -> T:
        """The value of ``make`` under ``name``, in words that a user may read, for these objects.

        Texts and numbers are told apart by value, other objects by identity; they live as long as
        the memo does.
        """
        key = (name, *map(_told_apart, about))
        if key not in self._known:
            self._known[key] = self._measured(" ".join([name, *_words(about)]), key, make)
        value, failure = self._known[key]
        if failure is not None:
            raise failure
        return value  # type: ignore[no-any-return]

    def _measured(
        self, words: str, key: tuple[object, ...], make: Callable[[], T]
    ) -> tuple[T | None, Exception | None]:
        try:
            return make(), None
        except (Unanswered, StageError, CannotStep) as error:
            return None, error
        except CannotCopy as error:
            return None, CouldNotLook(str(error))
        except Expired:  # once is enough: the next check does not wait as long again
            self._known[key] = (None, CouldNotLook(f"{words} took too long (verify.timeout)"))
            raise

    def forget(self, name: str) -> Any:
        """Take a value out and return it; None where there is none."""
        return self._known.pop((name,), (None, None))[0]


class _Same:
    """An object as a key by identity. It is held, so that its id is no other object's."""

    def __init__(self, one: object) -> None:
        self.one = one

    def __hash__(self) -> int:
        return id(self.one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.one is other.one


def _told_apart(one: object) -> object:
    return one if isinstance(one, str | int | float | tuple | frozenset) else _Same(one)


def _words(about: tuple[object, ...]) -> list[str]:
    return [str(one) for one in about if isinstance(one, str)]
