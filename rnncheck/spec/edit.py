"""Changing a spec's text: comments, order, quotes and the way its lists are indented are kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from typing import Any

from ruamel.yaml import YAML


def edited(text: str, change: Callable[[Any], list[str]]) -> tuple[str, list[str]]:
    """The text behind ``change``, which alters the document and says in words what it did; the same
    text where it did nothing."""
    yaml = _yaml_like(text)
    document = yaml.load(text)
    changed = change(document)
    if not changed:
        return text, changed
    out = StringIO()
    yaml.dump(document, out)
    return out.getvalue(), changed


def _yaml_like(text: str) -> YAML:
    """A writer that indents lists as ``text`` does and leaves its lines as long as they are."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10_000
    if re.search(r"^\w+:[^\n]*\n(?:\s*#[^\n]*\n)*  +- |^  \w+:[^\n]*\n    - ", text, re.MULTILINE):
        yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
