"""What a script defines, without running it: for one that runs when it is imported."""

from __future__ import annotations

import ast
import dis
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

_IMPORTS = (ast.Import, ast.ImportFrom)
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PLAIN = (
    *(ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Name, ast.expr_context),
    *(ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator),
)
_READS = ("LOAD_GLOBAL", "LOAD_NAME")


def fixed_names(path: Path) -> frozenset[str]:
    """The names that its imports, functions and classes bind, and nothing else does."""
    tree = _tree(path)
    kept = [one for one in tree.body if isinstance(one, (*_IMPORTS, *_DEFINES))]
    others = [one for one in tree.body if not isinstance(one, (*_IMPORTS, *_DEFINES))]
    stored = {
        node.id
        for one in others
        for node in ast.walk(one)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    stored |= {n for one in ast.walk(tree) if isinstance(one, ast.Global) for n in one.names}
    return frozenset(name for one in kept for name in _bound(one)) - stored


def defined_module(name: str, path: Path) -> ModuleType:
    """The module with its imports, functions, classes and constants alone. Raises whatever these
    raise."""
    made = ModuleType(name)
    made.__file__, made.__package__ = str(path), name.rpartition(".")[0]
    body = list(_definitions(_tree(path).body))
    sys.modules[name] = made
    try:
        exec(compile(ast.Module(body, []), str(path), "exec"), made.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return made


def file_of(name: str) -> Path | None:
    """Where the module would be imported from."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(found.origin) if found is not None and found.origin else None


def read_globally(value: Any) -> set[str]:
    """The global names that a function, or the functions of a class, read."""
    return {name for code in _codes(value) for name in _read(code)}


def digest_of(code: CodeType) -> str:
    """What tells the code from another one."""
    parts = [code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount]
    plain = [c if not isinstance(c, CodeType) else digest_of(c) for c in code.co_consts]
    told = repr((*parts, [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in plain]))
    return hashlib.sha256(told.encode()).hexdigest()


def code_in(path: Path, name: str, digest: str) -> CodeType | None:
    """The code of that name and digest in the file; None where there is none any more."""
    found = (one for one in _inner(_compiled(path)) if one.co_qualname == name)
    return next((one for one in found if digest_of(one) == digest), None)


def _compiled(path: Path) -> CodeType:
    return compile(path.read_bytes(), str(path), "exec")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def _inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _inner(one)


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, _IMPORTS):
        yield from (one.asname or one.name.partition(".")[0] for one in statement.names)
    elif isinstance(statement, _DEFINES):
        yield statement.name


def _definitions(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module; of assignments those of numbers, texts and what is made of them."""
    constants = set[str]()
    for one in body:
        if isinstance(one, (*_IMPORTS, *_DEFINES)) or _tries_imports(one):
            yield one
        elif isinstance(one, ast.Assign) and _is_plain(one.value, constants):
            targets = [node for target in one.targets for node in ast.walk(target)]
            if all(isinstance(node, (ast.Name, ast.Tuple, ast.Store)) for node in targets):
                constants |= {node.id for node in targets if isinstance(node, ast.Name)}
                yield one


def _tries_imports(statement: ast.stmt) -> bool:
    """``try: import …``, with another import or nothing instead."""
    if not isinstance(statement, ast.Try):
        return False
    inner = [one for handler in statement.handlers for one in handler.body]
    inner += [*statement.body, *statement.orelse, *statement.finalbody]
    return all(isinstance(one, (*_IMPORTS, ast.Pass)) for one in inner)


def _is_plain(value: ast.expr, constants: set[str]) -> bool:
    return all(
        isinstance(node, _PLAIN) and (not isinstance(node, ast.Name) or node.id in constants)
        for node in ast.walk(value)
    )


def _codes(value: Any) -> Iterator[CodeType]:
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, type):
        for one in vars(value).values():
            parts = (one.fget, one.fset) if isinstance(one, property) else (one,)
            plain = (getattr(part, "__func__", part) for part in parts)
            for part in plain:
                if isinstance(part, (FunctionType, type)):
                    yield from _codes(part)
    elif isinstance(value, FunctionType):
        yield value.__code__


def _read(code: CodeType) -> set[str]:
    return {
        str(one.argval)
        for inner in _inner(code)
        for one in dis.get_instructions(inner)
        if one.opname in _READS
    }
