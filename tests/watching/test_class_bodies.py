"""Classes of the user's are heard of as they are made, and libraries that look from a class body
for the module around it find that."""

from __future__ import annotations

import builtins
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rnncheck.watching.seams.new_classes import hear_classes

LOOKS = """import sys


def bases_of_the_class(method):
    around = sys._getframe(2)
    method.seen = around.f_code.co_name, sorted(set(around.f_code.co_names) & {"A"})
    return method


class A:
    pass


class B(A):
    @bases_of_the_class
    def step(self):
        pass
"""


def test_nothing_stands_between_a_module_and_its_class_bodies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "looks_around.py").write_text(LOOKS)
    monkeypatch.syspath_prepend(tmp_path)
    heard, making = list[str](), builtins.__build_class__
    with ExitStack() as scope:
        hear_classes(scope, lambda kind: heard.append(kind.__name__))
        found: Any = import_module("looks_around")
        inside = builtins.__build_class__

        class Later:
            pass

    del sys.modules["looks_around"]
    assert found.B.step.seen == ("<module>", ["A"])
    assert heard == ["A", "B", "Later"]
    assert inside is not making
    assert builtins.__build_class__ is making
