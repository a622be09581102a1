"""Lists and the like that a loop's variables, and the user's objects among them, hold while an env
is stepped: what trains on them may put empty ones in their place first."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import numpy as np
from torch import Tensor, nn

from rnncheck.pipeline.copying.closures import is_users_type
from rnncheck.watching.forms.structures import LEAVES, Path, filled, holdings

_CONTAINERS = (list, dict, deque)
_DEEPEST = 2  # a list in a memory of an agent
_NEITHER, _CONTAINER, _OBJECT, _DATA = 0, 1, 2, 3  # what instances of a class are
_ARRAYS = (Tensor, np.ndarray)
_PLAIN = (bool, int, float, type(None))


@dataclass(frozen=True)
class HeldBy:
    """What an object holds, by the way there."""

    held: Mapping[Path, Any]

    def again(self, value: Any) -> Any:
        """The object, or one like it, with these where it has others by now: of arrays and tensors
        the same numbers in another form, with the plain values beside these."""
        moved = {path: one for path, one in self.held.items() if _at(value, path) is not one}
        turned = {path[:-1] for path, one in moved.items() if _is_turned(one, _at(value, path))}
        moved = {
            path: one
            for path, one in moved.items()
            if isinstance(one, _CONTAINERS)
            or (path[:-1] in turned and not _like(one, _at(value, path)))
        }
        return filled(value, moved, holdings) if moved else value

    def with_data(self, later: HeldBy) -> HeldBy:
        """The same, with what is no container as it was later on."""
        data = {p: one for p, one in later.held.items() if not isinstance(one, _CONTAINERS)}
        return HeldBy({**self.held, **data})


@dataclass(frozen=True)
class _Form:
    """What variables or attributes were, by the type of each: which of them are containers, which
    objects of the user's, and which beside arrays or tensors are plain values."""

    names: list[str]
    types: list[type]
    containers: list[str]
    objects: list[str]
    data: list[str]


class ContainersIn:
    """Finds them at every step: what is of the same types as before is not asked again."""

    def __init__(self) -> None:
        self._kinds = dict[type, int].fromkeys(LEAVES, _NEITHER)
        self._kinds |= dict.fromkeys((*_ARRAYS, *_PLAIN), _DATA)
        self._forms = dict[Any, _Form]()  # by the code's id, or by class
        self._looked = dict[int, dict[Path, Any]]()  # into objects, by id, at this step

    def __call__(
        self, stack: Sequence[FrameType], waiting: bool = False
    ) -> list[tuple[CodeType, dict[str, Any]]]:
        """By variable of each frame, a container or what an object of the user's holds of such.
        Where all but the innermost are ``waiting``, as they were at the step before, their
        variables are what they were."""
        self._looked.clear()
        return [(one.f_code, self._of(one, waiting and at > 0)) for at, one in enumerate(stack)]

    def _of(self, frame: FrameType, waits: bool) -> dict[str, Any]:
        held = frame.f_locals
        form = self._forms.get(id(frame.f_code)) if waits else None
        form = form or self._form_of(id(frame.f_code), held)
        # Of variables that wait, the script may have deleted some.
        found = {name: held[name] for name in form.containers if name in held}
        for name in (one for one in form.objects if one in held):
            inner = self._looked.get(id(held[name]))
            if inner is None:
                inner = self._looked[id(held[name])] = {}
                self._look_into(held[name], (), inner)
            if inner:
                found[name] = HeldBy(inner)
        return found

    def _look_into(self, value: Any, path: Path, found: dict[Path, Any]) -> None:
        held = getattr(value, "__dict__", {})
        form = self._form_of(type(value), held, module=isinstance(value, nn.Module))
        for name in form.containers:
            found[*path, name] = held[name]
        for name in form.data if path else ():  # of an object that another one holds
            found[*path, name] = held[name]
        for name in form.objects if len(path) + 1 < _DEEPEST else ():
            self._look_into(held[name], (*path, name), found)

    def _form_of(self, key: Any, held: Mapping[str, Any], *, module: bool = False) -> _Form:
        names, types = list(held), list(map(type, held.values()))
        form = self._forms.get(key)
        if form is None or form.types != types or form.names != names:
            kinds = {
                name: self._kind_of(kind)
                for name, kind in zip(names, types, strict=True)
                if not (module and name[:1] == "_")
            }
            containers, objects = (
                [name for name, kind in kinds.items() if kind == wanted]
                for wanted in (_CONTAINER, _OBJECT)
            )
            buffers = not module and any(issubclass(kind, _ARRAYS) for kind in types)
            data = [name for name, kind in kinds.items() if buffers and kinds[name] == _DATA]
            form = self._forms[key] = _Form(names, types, containers, objects, data)
        return form

    def _kind_of(self, kind: type) -> int:
        told = self._kinds.get(kind)
        if told is None:
            users = not issubclass(kind, type) and is_users_type(kind)
            told = _CONTAINER if issubclass(kind, _CONTAINERS) else _OBJECT if users else _NEITHER
            self._kinds[kind] = told
        return told


def _is_turned(held: Any, now: Any) -> bool:
    """Whether the same count of numbers has another form by now."""
    if not isinstance(held, _ARRAYS) or type(now) is not type(held) or held.ndim < 2:
        return False
    return tuple(held.shape) != tuple(now.shape) and math.prod(held.shape) == math.prod(now.shape)


def _like(held: Any, now: Any) -> bool:
    """Whether it is an array of the same form: a loop may have gone on to another one."""
    return isinstance(held, _ARRAYS) and not _is_turned(held, now)


def _at(value: Any, path: Path) -> Any:
    for name in path:
        value = getattr(value, name, None)
    return value
