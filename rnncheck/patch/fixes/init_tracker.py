"""InitTracker among the env's transforms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory
from rnncheck.patch.spec_text import add_entry
from rnncheck.patch.texts import Texts


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    if "use" in case.section("env"):
        yield from case.in_spec(_listed)
    if (factory := case.factory("env")) is not None and (edit := _appended(factory)) is not None:
        yield from case.in_factory(factory, edit, *factory.importing("torchrl.envs", "InitTracker"))


def _listed(document: Any) -> bool:
    add_entry(document["env"], "transforms", "InitTracker")
    return True


def _appended(factory: Factory) -> Edit | None:
    """As the last argument of the one ``Compose``, or behind what the function returns."""
    calls = [n for n in ast.walk(factory.function) if isinstance(n, ast.Call)]
    composed = [n for n in calls if ast.unparse(n.func).rpartition(".")[2] == "Compose"]
    if len(composed) == 1 and composed[0].args and not composed[0].keywords:
        at = factory.end(composed[0].args[-1])
        return Edit(at, at, ", InitTracker()")
    returned = factory.only_return
    if composed or returned is None or not isinstance(returned.value, ast.Name | ast.Call):
        return None
    at = factory.end(returned.value)
    return Edit(at, at, ".append_transform(InitTracker())")


FIX = Fix(("WR102",), "with InitTracker among the env's transforms", _ways)
