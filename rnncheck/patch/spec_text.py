"""Additions to a spec that look as if a person had made them."""

from __future__ import annotations

from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString


def add_key(mapping: Any, key: str, value: Any) -> None:
    """Set a new key before the last one: what is behind that belongs to the next section."""
    if len(mapping) and not mapping.fa.flow_style():
        mapping.insert(len(mapping) - 1, key, value)
    else:
        mapping[key] = value


def add_entry(mapping: Any, key: str, entry: Any) -> None:
    """Put an entry first into the list at ``key``, which is made where there is none."""
    if mapping.get(key):
        mapping[key].insert(0, entry)
    elif key in mapping:
        mapping[key] = in_line([entry])
    else:
        add_key(mapping, key, in_line([entry]))


def in_line(value: Any) -> Any:
    """Lists and mappings that are written in one line."""
    if isinstance(value, dict):
        made: Any = CommentedMap({key: in_line(one) for key, one in value.items()})
    elif isinstance(value, list):
        made = CommentedSeq([in_line(one) for one in value])
    elif isinstance(value, str) and ":" in value:
        return DoubleQuotedScalarString(value)
    else:
        return value
    made.fa.set_flow_style()
    return made
