"""What is known not to be installed is not looked for again."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types

import pytest

from rnncheck.pipeline.guard import process
from rnncheck.pipeline.guard.process import absence_known

ABSENT = "no_such_package_of_anybody"


def test_absence_is_known_only_inside_and_only_of_what_is_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_LOOKED_FOR", (ABSENT, "json"))
    looked: list[str] = []
    original = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> object:
        looked.append(name)
        return original(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with absence_known():
        looked.clear()
        assert importlib.util.find_spec(ABSENT) is None
        assert not looked
        assert importlib.util.find_spec("json") is not None
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(ABSENT)
        module = types.ModuleType(ABSENT)
        module.__spec__ = importlib.machinery.ModuleSpec(ABSENT, None)
        monkeypatch.setitem(sys.modules, ABSENT, module)
        assert importlib.util.find_spec(ABSENT) is module.__spec__
    assert importlib.util.find_spec is find_spec
