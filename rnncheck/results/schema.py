"""The JSON Schema of stored results, made from the model.

After a change of the model, ``python -m rnncheck.results.schema`` writes ``result.schema.json``
again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rnncheck.results.encode import NON_FINITE
from rnncheck.results.files import write_atomic
from rnncheck.results.model import READABLE
from rnncheck.results.store import adapter

FILE = Path(__file__).with_name("result.schema.json")


def generate() -> str:
    """The text of ``result.schema.json``."""
    schema = _with_non_finite(adapter().json_schema())
    schema["properties"]["format"] = {"enum": list(READABLE)}
    schema["required"].append("format")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A stored rnncheck run",
    }
    return json.dumps(schema | head, indent=2, sort_keys=True) + "\n"


def _with_non_finite(node: Any) -> Any:
    """Numbers may also be the strings that stand for NaN and the infinities."""
    if isinstance(node, list):
        return [_with_non_finite(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "number":
        rest = {key: item for key, item in node.items() if key != "type"}
        return rest | {"anyOf": [{"type": "number"}, {"enum": list(NON_FINITE)}]}
    return {key: _with_non_finite(item) for key, item in node.items()}


if __name__ == "__main__":
    write_atomic(FILE, generate())
