"""Mutants: a stored result or a spec with a few things about it changed, by a seeded draw."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

from hostile import PIECES

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, -0.0, math.nan, math.inf, -math.inf, 1e300, 10**30, -(2**63),
    2**53 + 1, "", "nan", "inf", [], {}, [[]], {"a": 1}, "9" * 400,
)  # fmt: skip
NUMBERS = ("nan", "inf", "-inf")  # how a result spells what JSON has not
# Fields of a result that may hold any text, themselves or in a list or mapping.
FREE = {
    "because", "bound_formula", "cause", "changes", "code", "command", "cpu", "details", "detail",
    "distrust", "fix", "frame", "hash", "key", "message", "name", "notices", "on", "packages",
    "path", "platform", "python", "quantity", "reason", "sentence", "started", "summary", "text",
    "tool", "unit", "version", "why", "accepted", "gpu", "device", "node",
}  # fmt: skip
LARGE = 60  # one in so many mutations is of size: a long text, a deep nest, a long list

Path = tuple[str | int, ...]


def text(draw: random.Random) -> str:
    """A hostile text of a few pieces."""
    return "".join(draw.choices(PIECES, k=draw.randint(1, 5)))


def walk(value: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value below ``value``, itself first."""
    yield at, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from walk(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, (*at, index))


def put(data: Any, at: Path, value: Any) -> None:
    """Write ``value`` at the path ``at``."""
    for part in at[:-1]:
        data = data[part]
    data[at[-1]] = value


def texts_changed(data: dict[str, Any], draw: random.Random, share: float = 0.5) -> dict[str, Any]:
    """``data`` with a share of its free texts made hostile: it stays a result."""
    found = copy.deepcopy(data)
    for at, value in list(walk(found)):
        free = FREE & {part for part in at[-2:] if isinstance(part, str)}
        if free and isinstance(value, str) and value not in NUMBERS and draw.random() < share:
            put(found, at, text(draw))
    return found


def mutated(data: dict[str, Any], draw: random.Random, most: int = 3) -> dict[str, Any]:
    """``data`` with up to ``most`` values replaced, dropped, doubled or renamed."""
    found = copy.deepcopy(data)
    for _ in range(draw.randint(1, most)):
        places = [at for at, _ in walk(found) if at]
        if places:
            draw.choice(_CHANGES)(found, draw.choice(places), draw)
    return found


def _replaced(data: Any, at: Path, draw: random.Random) -> None:
    large = draw.randrange(LARGE) == 0
    put(data, at, _large(draw) if large else draw.choice([text(draw), draw.choice(ODD)]))


def _large(draw: random.Random) -> Any:
    nest: Any = "x"
    for _ in range(draw.choice([40, 400])):
        nest = [nest] if draw.random() < 0.5 else {"x": nest}
    return draw.choice(
        [nest, "y" * 200_000, list(range(5_000)), {f"k{i}": i for i in range(9_000)}]
    )


def _dropped(data: Any, at: Path, draw: random.Random) -> None:
    holder = _holder(data, at)
    del holder[at[-1]]


def _renamed(data: Any, at: Path, draw: random.Random) -> None:
    holder = _holder(data, at)
    if isinstance(holder, dict):
        holder[text(draw)] = holder.pop(at[-1])


def _doubled(data: Any, at: Path, draw: random.Random) -> None:
    holder = _holder(data, at)
    if isinstance(holder, list):
        holder.append(copy.deepcopy(holder[at[-1]]))  # type: ignore[index]


def _swapped(data: Any, at: Path, draw: random.Random) -> None:
    """Another value of the same file."""
    _, value = draw.choice(list(walk(data)))
    put(data, at, copy.deepcopy(value))


def _holder(data: Any, at: Path) -> Any:
    for part in at[:-1]:
        data = data[part]
    return data


_CHANGES: tuple[Callable[[Any, Path, random.Random], None], ...] = (
    _replaced, _replaced, _replaced, _dropped, _renamed, _doubled, _swapped,
)  # fmt: skip


def cut(content: str, draw: random.Random) -> str:
    """``content`` with a piece of it lost, doubled or replaced, as a text."""
    start = draw.randrange(len(content) + 1)
    end = min(len(content), start + draw.choice([0, 1, 5, 200]))
    return content[:start] + draw.choice(["", text(draw), content[start:end] * 2]) + content[end:]


def as_text(data: Any) -> str:
    """JSON as an unfriendly writer leaves it: NaN as a word, texts raw."""
    return json.dumps(data, ensure_ascii=draw_ascii(data))


def draw_ascii(data: Any) -> bool:
    """Half of the mutants are written in ASCII alone."""
    return len(str(data)) % 2 == 0
