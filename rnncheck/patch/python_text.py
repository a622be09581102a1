"""Changing Python text at exact places; all else stays as it was written."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """``new`` in the place of the characters from ``begin`` to ``end``."""

    begin: int
    end: int
    new: str


@dataclass(frozen=True)
class Factory:
    """A function of the user's that the spec names, in the text of its file."""

    path: Path
    text: str
    tree: ast.Module
    function: ast.FunctionDef

    @property
    def only_return(self) -> ast.Return | None:
        """What the function returns, where it is its last statement and there is no other one."""
        found = [node for node in ast.walk(self.function) if isinstance(node, ast.Return)]
        last = self.function.body[-1]
        inner = [n for n in ast.walk(self.function) if isinstance(n, ast.FunctionDef | ast.Lambda)]
        alone = len(found) == 1 and found[0] is last and len(inner) == 1
        return found[0] if alone and found[0].value is not None else None

    @property
    def last_return(self) -> ast.Return | None:
        """The return at the function's end."""
        last = self.function.body[-1]
        return last if isinstance(last, ast.Return) else None

    def methods(self, name: str) -> dict[str, ast.FunctionDef]:
        """The methods of that name in the file, by their class."""
        classes = [node for node in self.tree.body if isinstance(node, ast.ClassDef)]
        return {
            one.name: node
            for one in classes
            for node in one.body
            if isinstance(node, ast.FunctionDef) and node.name == name
        }

    def begin(self, node: ast.expr | ast.stmt) -> int:
        """Where the node begins in the text."""
        return _offset(self.text, node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.alias) -> int:
        """Where it ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return _offset(self.text, node.end_lineno, node.end_col_offset)

    def source(self, node: ast.expr) -> str:
        """The node as it is written."""
        return self.text[self.begin(node) : self.end(node)]

    def indent(self, node: ast.stmt) -> str:
        """What stands before a statement in its line; empty where another one does."""
        before = self.text[: self.begin(node)].rpartition("\n")[2]
        return before if not before.strip() else ""

    def importing(self, module: str, name: str) -> list[Edit]:
        """What imports ``name``; nothing where the file has it."""
        imports = [n for n in self.tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        froms = [n for n in imports if isinstance(n, ast.ImportFrom)]
        if any((one.asname or one.name) == name for node in froms for one in node.names):
            return []
        for node in froms:
            if node.module == module and node.names[-1].name != "*":
                at = self.end(node.names[-1])
                return [Edit(at, at, f", {name}")]
        if not imports:
            return [Edit(0, 0, f"from {module} import {name}\n")] if self._plain else []
        at = self.end(imports[-1])
        return [Edit(at, at, f"\nfrom {module} import {name}")]

    @property
    def _plain(self) -> bool:
        """The file begins with no docstring that an import must stand behind."""
        return ast.get_docstring(self.tree) is None

    def with_edits(self, *edits: Edit) -> str:
        """The text behind the edits."""
        text = self.text
        for edit in sorted(edits, key=lambda one: -one.begin):
            text = text[: edit.begin] + edit.new + text[edit.end :]
        return text


def factory_in(path: Path, text: str, name: str) -> Factory | None:
    """The function of that name at the top of the file, if it is there once."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return Factory(path, text, tree, found[0]) if len(found) == 1 else None


def named_call(node: ast.expr, name: str) -> bool:
    """``node`` calls ``name``, wherever that is imported from."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name


def calls_of(tree: ast.AST, name: str) -> list[ast.Call]:
    """The calls of ``name`` below ``tree``."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and named_call(n, name)]


def strings_of(tree: ast.AST, values: tuple[str, ...]) -> list[ast.Constant]:
    """The strings below ``tree`` that are one of ``values``."""
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [one for one in constants if isinstance(one.value, str) and one.value in values]


def given_names(function: ast.FunctionDef) -> list[str]:
    """What the function is given in order."""
    return [one.arg for one in (*function.args.posonlyargs, *function.args.args)]


def _offset(text: str, line: int, column: int) -> int:
    """The character at a line and a column of UTF-8 bytes, as ``ast`` counts them."""
    lines = text.split("\n")
    before = sum(len(one) + 1 for one in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode())
