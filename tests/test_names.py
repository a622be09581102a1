"""Names: a public top-level name is defined once in the package, so that it says one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rnncheck"

# What a file of its kind has by convention, and a command that is the function of the same name.
ALLOWED = {
    "RULE",  # a check
    "run",
    "FAULT",  # a planted fault
    "plant",
    "render",  # a report format
    "main",  # a process
    "verify",  # the commands, and the same from Python
    "memory",
}


@cache
def parsed() -> dict[str, ast.Module]:
    """Every module of the package by dotted name."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts): ast.parse(file.read_text("utf-8"))
        for file in files
    }


def imported(modules: dict[str, ast.Module]) -> set[tuple[str, str]]:
    """Module and name of everything that one module of the package imports from another."""
    return {
        (node.module or "", alias.name)
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def functions_and_classes(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def public_names(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Public functions and classes, and the constants that another module imports, by name."""
    used = imported(modules)
    found = defaultdict[str, list[str]](list)
    for module, tree in modules.items():
        shared = [name for name in constants(tree) if (module, name) in used]
        for name in [*functions_and_classes(tree), *shared]:
            if not name.startswith("_"):
                found[name].append(module)
    return found


def test_a_public_name_is_defined_once() -> None:
    names = public_names(parsed())
    assert len(names) > 500  # the walk sees the package
    several = {name: where for name, where in names.items() if len(where) > 1}
    assert not {name: where for name, where in several.items() if name not in ALLOWED}


def test_every_allowed_name_is_in_use() -> None:
    trees = parsed().values()
    names = [name for tree in trees for name in (*functions_and_classes(tree), *constants(tree))]
    assert {name for name in ALLOWED if names.count(name) < 2} == set()


def test_a_second_definition_is_seen() -> None:
    modules = {
        "rnncheck.a": ast.parse("LIMIT = 1\ndef measure(): ...\n"),
        "rnncheck.b": ast.parse("from rnncheck.a import LIMIT\nclass measure: ...\n_x = 1\n"),
        "rnncheck.c": ast.parse("LIMIT: int = 2\n"),
        "rnncheck.d": ast.parse("from rnncheck.c import LIMIT\nx = 3\n"),
    }
    found = public_names(modules)
    assert found == {
        "measure": ["rnncheck.a", "rnncheck.b"],
        "LIMIT": ["rnncheck.a", "rnncheck.c"],
    }
