"""What the names in a script's sources stand for, as far as its frames and modules tell: variables
of functions that run, those of modules, and attributes of the user's objects in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.copying.closures import is_own_instance
from rnncheck.pipeline.copying.holdings import held_modules
from rnncheck.watching.forms.source_scopes import Scope

_MOST, _FEW = 4096, 64  # tensors, objects of a container that is looked into: no memory is
_DEEPEST = 4  # attributes of objects of the user's: a trainer's agent's networks' parts

Variables = Mapping[str, Any]


@dataclass(frozen=True)
class HeldNames:
    """Variables by file and function, and by the file of a module; ``attributes`` of all objects
    that these hold."""

    running: Mapping[tuple[str, str], Variables]
    modules: Mapping[str, Variables]
    attributes: Mapping[str, Sequence[Any]]

    def of(self, at: ast.AST, scope: Scope) -> Sequence[Any] | None:
        """What it may stand for there; None where that is not known."""
        if isinstance(at, ast.Subscript | ast.Starred):
            return self.of(at.value, scope)
        if isinstance(at, ast.Attribute):
            return self.attributes.get(at.attr)
        return self._variable(at.id, scope) if isinstance(at, ast.Name) else None

    def _variable(self, name: str, scope: Scope | None) -> Sequence[Any] | None:
        while scope is not None and scope.name and not scope.binds(name):
            scope = scope.parent
        if scope is None:
            return None
        own = (scope.path, scope.name)
        held = self.running.get(own) if scope.name else self.modules.get(scope.path)
        return [held[name]] if held is not None and name in held else None

    def networks(self) -> Iterator[nn.Module]:
        """All that have a name."""
        variables = (*self.running.values(), *self.modules.values())
        held = [one for each in variables for one in each.values()]
        for one in (*held, *(one for each in self.attributes.values() for one in each)):
            if isinstance(one, nn.Module):
                yield one

    def names_of(self, value: Any) -> set[str]:
        """All names that stand for it."""
        variables = [*self.running.values(), *self.modules.values()]
        found = {name for one in variables for name, held in one.items() if held is value}
        held_as = self.attributes.items()
        return found | {name for name, held in held_as if any(one is value for one in held)}


def held_names(
    frames: Sequence[tuple[CodeType, Variables]], modules: Mapping[str, Variables]
) -> HeldNames:
    """By the code of each frame its variables, and by file those of the modules."""
    running = {(code.co_filename, code.co_name): held for code, held in frames}
    attributes, seen = dict[str, list[Any]](), set[int]()

    def look(value: Any, deep: int) -> None:
        holds = isinstance(value, (nn.Module, dict, list, tuple)) or is_own_instance(value)
        if id(value) in seen or deep > _DEEPEST or not holds:
            return
        seen.add(id(value))
        for name, one in _parts(value):
            known = attributes.setdefault(name, []) if name else []
            if not any(one is other for other in known):
                known.append(one)
            look(one, deep + 1)

    for variables in (*running.values(), *modules.values()):
        for value in list(variables.values()):
            look(value, 0)
    return HeldNames(running, modules, attributes)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What it holds, by attribute; what a container holds has no name of its own."""
    if isinstance(value, (list, tuple, dict)):
        inner = list(value.values() if isinstance(value, dict) else value)
        yield from (("", one) for one in (inner if len(inner) <= _FEW else ()))
        return
    yield from vars(value).items()
    if isinstance(value, nn.Module):
        yield from value._modules.items()


def has_weights(value: Any, weights: set[int]) -> bool:
    """Whether some of the weights are in it, by the ids of them and the addresses of their data."""
    if isinstance(value, Tensor):
        return id(value) in weights or value.data_ptr() in weights
    if isinstance(value, TensorDictBase) and not isinstance(value, nn.Module):
        return any(id(one) in weights for one in value.values(True, True))
    if isinstance(value, (list, tuple, dict)) and len(value) <= _MOST:
        inner = value.values() if isinstance(value, dict) else value
        return any(has_weights(one, weights) for one in inner)
    modules = [one for _, one in held_modules(value)]
    return any(id(one) in weights for m in modules for one in (*m.parameters(), *m.buffers()))
