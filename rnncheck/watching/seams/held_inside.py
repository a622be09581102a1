"""States that networks keep themselves, which lines of the user's call without naming them: as
variables of these lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import Tensor, nn

from rnncheck.pipeline.copying.closures import is_own_instance

_MOST_STATES = 4  # tensors of one attribute: of a pair, or of a few layers


@dataclass(frozen=True)
class HeldInside:
    """The variable ``name`` is ``attribute`` of the network that ``owner`` names."""

    owner: str  # ``net`` or ``self.net``
    attribute: str

    @property
    def copy(self) -> str:
        """The variable that holds a copy of the network."""
        return self.owner.replace(".", "_")

    @property
    def name(self) -> str:
        """The variable that holds the state."""
        return f"{self.copy}_{self.attribute}"

    @property
    def way(self) -> tuple[str, str] | None:
        """The object and the attribute that the network is; None where it has a name."""
        first, _, second = self.owner.partition(".")
        return (first, second) if second else None


def inside_of_networks(lines: Sequence[ast.stmt], frame: FrameType) -> list[HeldInside]:
    """What networks of the user's classes hold that the lines name, and that may be a state."""
    seen: Mapping[str, Any] = {**frame.f_globals, **frame.f_locals}
    found = list[HeldInside]()
    for name in dict.fromkeys(_named(lines)):
        owner = named_in(seen, name)
        if isinstance(owner, nn.Module) and is_own_instance(owner):
            states = (key for key, value in vars(owner).items() if _may_be_state(value))
            found += [HeldInside(name, key) for key in states if key[0] != "_"]
    return [one for one in found if one.name not in seen]


def named_in(seen: Mapping[str, Any], name: str) -> Any:
    """What is called that, ``self.net`` too; None where there is nothing."""
    first, _, second = name.partition(".")
    found = seen.get(first)
    return getattr(found, second, None) if second else found


def _named(lines: Sequence[ast.stmt]) -> Iterator[str]:
    for node in (node for one in lines for node in ast.walk(one)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def _may_be_state(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return 0 < len(value) <= _MOST_STATES and all(isinstance(one, Tensor) for one in value)
    return isinstance(value, Tensor) and not isinstance(value, nn.Parameter)


def put_in(inside: Sequence[HeldInside]) -> list[ast.stmt]:
    """Lines that put the variables into copies of the networks, which share their parts."""
    copies = dict.fromkeys((one.copy, one.owner) for one in inside)
    lines = [f"{name} = __import__('copy').copy({owner})" for name, owner in copies]
    lines += [f"{one.copy}.{one.attribute} = {one.name}" for one in inside]
    return ast.parse("\n".join(lines)).body


def taken_from(inside: Sequence[HeldInside]) -> list[ast.stmt]:
    """Lines that make variables of what the networks hold then."""
    lines = (f"{one.name} = {one.copy}.{one.attribute}" for one in inside)
    return ast.parse("\n".join(lines)).body
