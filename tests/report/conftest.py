"""Reports are tested as they are outside GitHub and at 80 columns, whatever runs the tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def outside_github(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
