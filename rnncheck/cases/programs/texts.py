"""Values and lines of Python as text."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

WIDTH = 99  # columns
_DIGITS = 2  # behind the point of a number: chosen, what a program shows does not hang on more
_JOINED = "\0"  # a space at which no line is broken


def code_of(value: Any) -> str:
    """``value`` as Python, texts in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # an escaped pair is two characters
    if isinstance(value, tuple):
        return f"({', '.join(map(code_of, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(code_of, value))}]"
    return repr(value)


def key_code(key: tuple[str, ...]) -> str:
    """A tensordict's key as its users write it."""
    return code_of(key[0] if len(key) == 1 else key)


def inner_code(key: tuple[str, ...]) -> str:
    """The same inside brackets."""
    return ", ".join(map(code_of, key))


def quotable(text: str) -> str:
    """``text`` as it may stand in a docstring, whoever stored it."""
    return text.replace("\\", "\\\\").replace('"', "'")


def literal(value: Tensor) -> str:
    """The tensor as Python: zeros and falses as such, other numbers rounded."""
    shape, dtype = list(value.shape), str(value.dtype)
    sizes = ", ".join(map(str, shape)) if shape else "()"
    plain = "" if dtype in ("torch.float32", "torch.bool", "torch.int64") else f", dtype={dtype}"
    if not bool(value.any()):
        kind = "" if dtype == "torch.float32" else f", dtype={dtype}"
        return f"torch.zeros({sizes}{kind})".replace(" ", _JOINED)
    if bool(value.eq(1).all()) and value.is_floating_point():
        return f"torch.ones({sizes}{plain})".replace(" ", _JOINED)
    rounded = value.double().mul(10**_DIGITS).round() if value.is_floating_point() else None
    numbers = value if rounded is None else rounded.div(10**_DIGITS)
    flat = re.sub(r"\.0\b", ".", str(numbers.flatten().tolist()))
    if value.dim() < 2:
        return f"torch.tensor({flat}{plain})"
    return f"torch.tensor({flat}{plain}).view({sizes.replace(' ', _JOINED)})"


def entry(key: str, value: str) -> str:
    """One entry of a dictionary; behind its colon no line is broken."""
    return f"{key}:{_JOINED}{value},"


def packed(entries: Iterable[str], indent: str = "    ") -> Iterator[str]:
    """Entries of a dictionary, as many on a line as fit."""
    line = ""
    for one in entries:
        if line and len(line) + len(one) < WIDTH - len(indent):
            line += f" {one}"
        else:
            yield from folded(line, indent)
            line = one
    yield from folded(line, indent)


def folded(text: str, indent: str = "") -> list[str]:
    """``text`` in lines that fit, broken at spaces."""
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_JOINED, " ") for line in lines]
