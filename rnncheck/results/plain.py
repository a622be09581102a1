"""Any result as values that JSON knows."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Integral, Real
from typing import Any

from rnncheck.results.variant import Own, Variant


def fields_of(item: Any) -> dict[str, Any]:
    """The fields of a dataclass, each plain."""
    return {field.name: plain_value(getattr(item, field.name)) for field in fields(item)}


def plain_value(value: Any) -> Any:
    """``value`` in JSON's own types; what JSON does not know becomes its text."""
    match value:
        case None | bool():
            return value
        case Enum():
            return value.value
        case Variant() | Own():
            return value.label
        case str():
            return _text(value)
        case Integral():
            return int(value)
        case Real():
            return _number(float(value))
        case dict():
            return {_text(str(key)): plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
    return fields_of(value) if is_dataclass(value) else _text(str(value))


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _text(value: str) -> str:
    """Lone surrogates (from file names that are no UTF-8) are spelled out, since no JSON reader
    takes them."""
    return value.encode("utf-8", errors="backslashreplace").decode()
