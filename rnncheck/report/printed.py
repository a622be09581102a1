"""A run as it is printed: every text in it harmless, whoever wrote it.

Formats for machines that escape on their own (json, jsonl, sarif) keep the texts as they are.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from rnncheck.printable import clean, clean_lines

_T = TypeVar("_T")

# Fields whose text may have several lines: tracebacks, code.
_LINES = {"reason", "detail", "frame"}


def printed(result: _T) -> _T:
    """``result``, a run or a part of one, with every text in it cleaned."""
    return cast(_T, _printed(result, lines=False))


def _printed(value: Any, *, lines: bool) -> Any:
    if type(value) is str:  # no enum: those are ours
        return clean_lines(value) if lines else clean(value)
    if isinstance(value, tuple | list):
        return type(value)(_printed(item, lines=lines) for item in value)
    if isinstance(value, dict):
        return {
            _printed(key, lines=False): _printed(item, lines=key in _LINES)
            for key, item in value.items()
        }
    return _fields(value) if is_dataclass(value) and not isinstance(value, type) else value


def _fields(item: Any) -> Any:
    texts = {one.name: getattr(item, one.name) for one in fields(item)}
    return replace(item, **{k: _printed(v, lines=k in _LINES) for k, v in texts.items()})
