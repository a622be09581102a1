"""The stored result itself."""

from __future__ import annotations

from rnncheck.results.model import Run
from rnncheck.results.store import dumps


def render(run: Run) -> str:
    """The JSON object that ``rnncheck report`` reads back."""
    return dumps(run)
