"""Lists and the like that a loop's variables, and the user's objects among them, hold while an env
is stepped: what trains on them may put empty ones in their place first."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import nn

from rnncheck.pipeline.copying.closures import is_users_type
from rnncheck.watching.forms.structures import LEAVES, Path, filled, holdings

_CONTAINERS = (list, dict, deque)
_DEEPEST = 2  # a list in a memory of an agent
_NEITHER, _CONTAINER, _OBJECT = 0, 1, 2  # what instances of a class are


@dataclass(frozen=True)
class HeldBy:
    """What an object holds, by the way there."""

    held: Mapping[Path, Any]

    def again(self, value: Any) -> Any:
        """The object, or one like it, with these where it has others by now."""
        moved = {path: one for path, one in self.held.items() if _at(value, path) is not one}
        return filled(value, moved, holdings) if moved else value


class ContainersIn:
    """Finds them at every step, so that what a class is is asked once."""

    def __init__(self) -> None:
        self._kinds = dict[type, int].fromkeys(LEAVES, _NEITHER)

    def __call__(self, frame: FrameType) -> dict[str, Any]:
        """By variable, a container or what an object of the user's holds of such."""
        found, kinds = dict[str, Any](), self._kinds
        for name, one in frame.f_locals.items():
            kind = kinds.get(type(one))
            if kind is None:
                kind = self._kind_of(type(one))
            if kind == _CONTAINER:
                found[name] = one
            elif kind == _OBJECT:
                inner = dict[Path, Any]()
                self._look_into(one, (), inner)
                if inner:
                    found[name] = HeldBy(inner)
        return found

    def _look_into(self, value: Any, path: Path, found: dict[Path, Any]) -> None:
        module, kinds = isinstance(value, nn.Module), self._kinds
        for name, one in getattr(value, "__dict__", {}).items():
            kind = kinds.get(type(one))
            if kind is None:
                kind = self._kind_of(type(one))
            if kind == _NEITHER or (module and name[:1] == "_"):
                continue
            if kind == _CONTAINER:
                found[*path, name] = one
            elif len(path) + 1 < _DEEPEST:
                self._look_into(one, (*path, name), found)

    def _kind_of(self, kind: type) -> int:
        users = not issubclass(kind, type) and is_users_type(kind)
        told = _CONTAINER if issubclass(kind, _CONTAINERS) else _OBJECT if users else _NEITHER
        self._kinds[kind] = told
        return told


def _at(value: Any, path: Path) -> Any:
    for name in path:
        value = getattr(value, name, None)
    return value
