"""Start flags of the next states: a copy of the root's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory
from rnncheck.patch.spec_text import in_line
from rnncheck.patch.texts import Texts

_MODULE = "next_flags"
_FACTORY = '''"""What stands between the data and the loss."""


def make_batch(data):
    """A next state begins anew where its step does."""
    data["next", "is_init"] = data["is_init"].clone()
    return data
'''
_COPY = '{0}["next", "is_init"] = {0}["is_init"].clone()'


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    if case.cause.code == "LS701" and "batch" not in case.document:
        yield from _added(case)
    if (factory := case.factory("batch")) is not None and (edit := _marked(factory)) is not None:
        yield from case.in_factory(factory, edit)


def _added(case: BrokenFiles) -> Iterator[Texts]:
    """A batch factory in a file of its own, between what makes the batches and the loss."""
    path = case.spec.with_name(f"{_MODULE}.py")
    if not path.exists() and path not in case.texts.after:
        for texts in case.in_spec(_named):
            yield texts.changed(path, _FACTORY)


def _named(document: Any) -> bool:
    keys = list(document)
    if "loss" not in keys:
        return False
    document.insert(keys.index("loss"), "batch", in_line({"factory": f"{_MODULE}:make_batch"}))
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
