"""Lists that the lines themselves make longer by what the last step gave."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rnncheck.watching.forms.storages import HeldPart, Records, Storage, WithoutLast
from rnncheck.watching.forms.structures import Path


def made_longer(
    names: Mapping[str, Any], ways: Collection[Path], steps: int
) -> dict[str, list[Any]]:
    """Variables that they have made longer than there are steps, as these were before."""
    longer = (way[0] for way in ways if len(way) == 1 and _is_long(names, way, steps + 1))
    return {name: names[name][:-1] for name in longer}


def with_their_last(
    parts: Mapping[Path, HeldPart], names: Mapping[str, Any], ways: Collection[Path], steps: int
) -> dict[Path, HeldPart]:
    """Of the others those that hold all steps by now, without the last one."""
    found = ((way, parts.get(way)) for way in ways if _is_long(names, way, steps))
    return {way: WithoutLast(one) for way, one in found if isinstance(one, (Storage, Records))}


def _is_long(names: Mapping[str, Any], way: Path, count: int) -> bool:
    value = names.get(way[0])
    for name in way[1:]:
        value = getattr(value, name, None)
    return isinstance(value, list) and len(value) == count
