"""Whether a factory exists, read from its source: nothing of it is imported or run."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from rnncheck.errors import ComponentError, did_you_mean
from rnncheck.pipeline.assembly.components import listed_names
from rnncheck.pipeline.guard.user_frames import display_path
from rnncheck.spec.model import Component, Spec

# Calls by which a module gets names that its source does not show.
_DYNAMIC = {"globals", "vars", "exec", "eval", "setattr", "locals"}


def factory_complaint(spec: Spec, component: Component) -> ComponentError | None:
    """Why ``module:function`` cannot be had, where its source shows it."""
    module, _, function = (component.factory or "").partition(":")
    place = spec.locate((*component.at, "factory"))
    found, missing = _find(module, spec.folder)
    if missing:
        names = [path.stem for path in spec.folder.glob("*.py")]
        said = f"there is no module {missing!r} in {display_path(str(spec.folder))}"
        return ComponentError(said, place=place, hint=did_you_mean(missing, names))
    if found is None or not str(found.origin).endswith(".py"):
        return None  # compiled or built in: there is no source to read
    try:
        tree = ast.parse(Path(str(found.origin)).read_bytes())
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        at = f"line {line}: " if line else ""
        said = f"importing {module!r} would fail: {at}{type(error).__name__}: {error.args[0]}"
        return ComponentError(said, place=place)
    known, name = set(_names(tree)), function.partition(".")[0]
    if name in known or _is_dynamic(tree) or _is_submodule(found, name):
        return None
    listed = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    said, public = f"{module} has no function {name!r}", [n for n in listed if n[0] != "_"]
    hint = did_you_mean(name, known)
    return ComponentError(said, place=place, accepted=listed_names(public), hint=hint)


def _find(module: str, folder: Path) -> tuple[ModuleSpec | None, str]:
    """Where the module is, or the part of its name that is nowhere; no parent package is run."""
    importlib.invalidate_caches()  # a file may have been written a moment ago
    parts, found = module.split("."), None
    where: list[str] | None = [str(folder), *sys.path]
    for number in range(1, len(parts) + 1):
        name = ".".join(parts[:number])
        found = PathFinder.find_spec(name, where)
        if found is None and number == 1:
            found = _from_other_finders(name)
        if found is None:
            return None, name
        try:
            where = list(found.submodule_search_locations or [])
        except KeyError:  # a namespace package inside a package that is not imported
            return None, ""
    return found, ""


def _from_other_finders(name: str) -> ModuleSpec | None:
    """Built-in modules, and packages that are installed for editing."""
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # a loaded module without a spec
        return None


def _names(tree: ast.Module) -> Iterator[str]:
    """Every name that the module's own statements can bind."""
    queue: list[ast.AST] = [*tree.body]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            yield from (n for g in ast.walk(node) if isinstance(g, ast.Global) for n in g.names)
            continue
        if isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        queue += ast.iter_child_nodes(node)


def _is_dynamic(tree: ast.Module) -> bool:
    """Whether names may come from elsewhere: a star import, __getattr__, a write to globals."""
    for node in ast.walk(tree):
        if isinstance(node, ast.alias) and node.name == "*":
            return True
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _DYNAMIC:
            return True
    return False


def _is_submodule(package: ModuleSpec, name: str) -> bool:
    where = list(package.submodule_search_locations or [])
    return PathFinder.find_spec(f"{package.name}.{name}", where) is not None if where else False
