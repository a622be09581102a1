"""Results as plain JSON values.

JSON has no NaN and no infinity: those floats are written as the strings ``"nan"``, ``"inf"`` and
``"-inf"``, and read back as floats wherever a number belongs, and everywhere in ``cells``.
"""

from __future__ import annotations

import re
from typing import Any

from rnncheck.results.events import Event
from rnncheck.results.model import Run
from rnncheck.results.plain import fields_of

NON_FINITE = ("nan", "inf", "-inf")


def run_to_json(run: Run) -> dict[str, Any]:
    """The run as the JSON object that is stored."""
    return fields_of(run)


def event_to_json(event: Event) -> dict[str, Any]:
    """One line of JSONL: the event's name (``check-finished``), its ``time`` where it is known,
    then its fields."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(event).__name__).lower()
    time = {} if event.at is None else {"time": event.at.isoformat(timespec="milliseconds")}
    told = {key: value for key, value in fields_of(event).items() if key != "at"}
    return {"event": name, **time, **told}


def restore_cells(value: Any) -> Any:
    """``cells`` with its non-finite floats back."""
    if isinstance(value, dict):
        return {key: restore_cells(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restore_cells(item) for item in value]
    return float(value) if value in NON_FINITE else value
