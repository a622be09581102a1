"""Start flags of the next states: a copy of the root's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import Case, Fix
from rnncheck.patch.python_text import Edit, Factory
from rnncheck.patch.spec_text import add_entry, in_line
from rnncheck.patch.texts import Texts

_COPY = '{0}["next", "is_init"] = {0}["is_init"].clone()'


def _ways(case: Case) -> Iterator[Texts]:
    replay = case.section("replay")
    if replay and "factory" not in replay:
        yield from case.in_spec(_copied)
    if (factory := case.factory("batch")) is not None and (edit := _marked(factory)) is not None:
        yield from case.in_factory(factory, edit)


def _copied(document: Any) -> bool:
    entry = {
        "use": "RenameTransform",
        "in_keys": ["is_init"],
        "out_keys": [["next", "is_init"]],
        "create_copy": True,
    }
    replay = document["replay"]
    if replay.get("transforms"):
        replay["transforms"].append(in_line(entry))
    else:
        add_entry(replay, "transforms", in_line(entry))
    return True


def _marked(factory: Factory) -> Edit | None:
    returned = factory.only_return
    if returned is None or returned.value is None or not (indent := factory.indent(returned)):
        return None
    at, value = factory.begin(returned), returned.value
    if isinstance(value, ast.Name):
        return Edit(at, at, f"{_COPY.format(value.id)}\n{indent}")
    taken = {node.id for node in ast.walk(factory.function) if isinstance(node, ast.Name)}
    taken |= {one.arg for one in factory.function.args.args}
    name = next(name for name in ("batch", "marked", "marked_batch") if name not in taken)
    lines = (f"{name} = {factory.source(value)}", _COPY.format(name), f"return {name}")
    return Edit(at, factory.end(returned), f"\n{indent}".join(lines))


FIX = Fix(("LS701", "VL601"), "with the start flags of the next states", _ways)
