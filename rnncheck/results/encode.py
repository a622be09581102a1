"""Results as plain JSON values.

JSON has no NaN and no infinity: those floats are written as the strings ``"nan"``, ``"inf"`` and ``"-inf"``, and read
back as floats wherever a number belongs, and everywhere in ``cells``.
"""

from __future__ import annotations

import math
import re
from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Integral, Real
from typing import Any

from rnncheck.results.events import Event
from rnncheck.results.model import Run

NON_FINITE = ("nan", "inf", "-inf")


def to_json(run: Run) -> dict[str, Any]:
    """The run as the JSON object that is stored."""
    return _fields(run)


def event_to_json(event: Event) -> dict[str, Any]:
    """One line of JSONL: the event's name (``check-finished``) under ``event``, then its fields."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(event).__name__).lower()
    return {"event": name, **_fields(event)}


def _fields(item: Any) -> dict[str, Any]:
    return {field.name: plain(getattr(item, field.name)) for field in fields(item)}


def plain(value: Any) -> Any:
    """``value`` in JSON's own types; what JSON does not know becomes its text."""
    match value:
        case None | bool():
            return value
        case Enum():
            return value.value
        case str():
            return _text(value)
        case Integral():
            return int(value)
        case Real():
            return _number(float(value))
        case dict():
            return {_text(str(key)): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return _fields(value) if is_dataclass(value) else _text(str(value))


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _text(value: str) -> str:
    """Lone surrogates (from file names that are no UTF-8) are spelled out, since no JSON reader takes them."""
    return value.encode("utf-8", errors="backslashreplace").decode()


def restore_cells(value: Any) -> Any:
    """``cells`` with its non-finite floats back."""
    if isinstance(value, dict):
        return {key: restore_cells(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restore_cells(item) for item in value]
    return float(value) if value in NON_FINITE else value
