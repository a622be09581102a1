"""Copies of objects that hand on what they lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rnncheck.watching.forms.structures import shallow_copy


class Wrapper:
    """As wrappers of envs are."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


@dataclass(frozen=True)
class Frozen:
    held: Any


class OwnCopy(Wrapper):
    def __copy__(self) -> OwnCopy:
        return OwnCopy("copied")


def test_what_it_holds_is_shared() -> None:
    inner = Frozen([1])
    made = shallow_copy(Wrapper(inner))
    assert type(made) is Wrapper
    assert made._env is inner
    assert made.held == [1]


@pytest.mark.parametrize("kind", [Slotted, Frozen])
def test_others_are_copied_as_ever(kind: Any) -> None:
    held = [1]
    made = shallow_copy(kind(held))
    assert type(made) is kind
    assert made.held is held


def test_a_way_of_its_own_is_taken() -> None:
    assert shallow_copy(OwnCopy("held"))._env == "copied"
