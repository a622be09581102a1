"""Lists and the like that a loop's variables, and the user's objects among them, hold while an env
is stepped: what trains on them may put empty ones in their place first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from rnncheck.pipeline.copying.closures import is_users_type
from rnncheck.watching.forms.structures import LEAVES, Path, filled, holdings

_CONTAINERS = (list, dict, deque)
_DEEPEST = 2  # a list in a memory of an agent
_USERS: MutableMapping[type, bool] = WeakKeyDictionary()  # classes that were asked


@dataclass(frozen=True)
class HeldBy:
    """What an object holds, by the way there."""

    held: Mapping[Path, Any]

    def again(self, value: Any) -> Any:
        """The object, or one like it, with these where it has others by now."""
        moved = {path: one for path, one in self.held.items() if _at(value, path) is not one}
        return filled(value, moved, holdings) if moved else value


def containers_in(frame: FrameType) -> dict[str, Any]:
    """By variable, a container or what an object of the user's holds of such."""
    found = dict[str, Any]()
    for name, one in frame.f_locals.items():
        if type(one) in LEAVES:
            continue
        if isinstance(one, _CONTAINERS):
            found[name] = one
        elif _is_users(type(one)) and (inner := dict(_inside(one))):
            found[name] = HeldBy(inner)
    return found


def _inside(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    module = isinstance(value, nn.Module)
    for name, one in getattr(value, "__dict__", {}).items():
        if type(one) in LEAVES or (module and name[:1] == "_"):
            continue
        if isinstance(one, _CONTAINERS):
            yield (*path, name), one
        elif len(path) + 1 < _DEEPEST and _is_users(type(one)):
            yield from _inside(one, (*path, name))


def _is_users(kind: type) -> bool:
    known = _USERS.get(kind)
    if known is None:
        known = _USERS[kind] = not issubclass(kind, type) and is_users_type(kind)
    return known


def _at(value: Any, path: Path) -> Any:
    for name in path:
        value = getattr(value, name, None)
    return value
