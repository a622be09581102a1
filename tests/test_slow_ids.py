"""The list of slow tests names no other ones, and leaves some of each file to every run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, slow_ids


@pytest.mark.parametrize("listed", sorted(slow_ids()))
def test_it_is_there(listed: str) -> None:
    path, _, name = listed.partition("::")
    assert f"def {name.partition('[')[0]}(" in Path(ROOT / path).read_text(encoding="utf-8")


def test_each_is_marked_as_slow(request: pytest.FixtureRequest) -> None:
    collected = [item for item in request.session.items if item.nodeid in slow_ids()]
    assert all(item.get_closest_marker("slow") for item in collected)
