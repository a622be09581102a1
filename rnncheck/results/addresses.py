"""Where the pages of the documentation are, if anywhere.

The address is one setting, ``Documentation`` under ``[project.urls]`` in pyproject.toml. It travels
in the metadata of the installed package; without it nothing prints an address.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

from rnncheck.results.families import BY_PREFIX, prefix_of

LABEL = "documentation"


def check_address(code: str) -> str:
    """The address of the page of one of rnncheck's own checks; empty where there is none."""
    base = _base() if prefix_of(code) in BY_PREFIX else ""
    return f"{base}/checks/{code.lower()}.html" if base else ""


@cache
def _base() -> str:
    try:
        listed = metadata("rnncheck").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    pairs = [line.partition(",") for line in listed]
    found = [url.strip() for label, _, url in pairs if label.strip().lower() == LABEL]
    return found[0].rstrip("/") if found else ""
