"""Recurrent mode around the networks inside a loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rnncheck.patch.fix import BrokenFiles, Fix
from rnncheck.patch.python_text import Edit, Factory, calls_of, named_call
from rnncheck.patch.texts import Texts

_MODE = "set_recurrent_mode"


def _ways(case: BrokenFiles) -> Iterator[Texts]:
    factory = case.factory("loss")
    if factory is None:
        return
    for given in _modes(factory):
        edit = Edit(factory.begin(given), factory.end(given), "True")
        yield from case.in_factory(factory, edit)
    whole = _computes(factory, itself="function" in case.section("loss"))
    if whole is not None and not any(named_call(one, _MODE) for one in whole.decorator_list):
        imported = factory.importing("torchrl.modules", _MODE)
        yield from case.in_factory(factory, _decorated(factory, whole), *imported)


def _modes(factory: Factory) -> list[ast.expr]:
    """What the file's calls of set_recurrent_mode are given, where that is not always True."""
    given = [call.args[0] for call in calls_of(factory.tree, _MODE) if len(call.args) == 1]
    return [one for one in given if not (isinstance(one, ast.Constant) and one.value is True)]


def _computes(factory: Factory, *, itself: bool) -> ast.FunctionDef | None:
    """The function that computes the loss: the spec's own, the one that the factory returns, or the
    one ``forward`` of the file."""
    if itself:
        return factory.function
    returned = None if factory.last_return is None else factory.last_return.value
    inner = {n.name: n for n in factory.function.body if isinstance(n, ast.FunctionDef)}
    if isinstance(returned, ast.Name) and returned.id in inner:
        return inner[returned.id]
    found = factory.methods("forward")
    made = returned.func if isinstance(returned, ast.Call) else None
    if isinstance(made, ast.Name) and made.id in found:
        return found[made.id]
    return next(iter(found.values())) if len(found) == 1 else None


def _decorated(factory: Factory, function: ast.FunctionDef) -> Edit:
    at, indent = factory.begin(function), " " * function.col_offset
    return Edit(at, at, f"@{_MODE}(True)\n{indent}")


FIX = Fix(("LS703", "GR801"), "with the loss in recurrent mode", _ways)
