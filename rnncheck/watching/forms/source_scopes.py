"""The functions of a script's sources, by which lines they are called: which of them may run again
and again once training is under way."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_EACH = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_WEIGHTS = ("parameters", "state_dict", "buffers")  # to go through these once is no repetition
_PAIRS = (*_WEIGHTS, "values", "items", "zip", "chain", "from_module")  # of what may be weights
# Decorators behind which a function is called by its name, as without them.
_PLAIN = ("staticmethod", "classmethod", "no_grad", "inference_mode", "enable_grad", "compile")
_MAKING = ("__init__", "__post_init__")
_OF_NO_FRAMEWORK = ("object", "Module", "ABC", "Protocol", "Generic", "NamedTuple", "Enum")


@dataclass(eq=False)
class Scope:
    """A function, or a module where ``name`` is empty; ``owner`` is the class that it is a method
    of, and ``framework`` tells that a class of a library's may call it."""

    path: str
    name: str
    parent: Scope | None = None
    owner: str = ""
    framework: bool = False
    decorated: bool = False  # so that others may call it
    arguments: frozenset[str] = frozenset()
    stored: set[str] = field(default_factory=set)  # names that lines of its own bind
    beyond: set[str] = field(default_factory=set)  # names that it declares as global
    # What lines of its own bind to what may be weights of networks: to parts of which expression,
    # None where that is not one alone.
    weights: dict[str, ast.expr | None] = field(default_factory=dict)

    def binds(self, name: str) -> bool:
        """Whether the name is a variable of its own."""
        return name not in self.beyond and (name in self.arguments or name in self.stored)

    def goes_through(self, target: ast.expr, through: ast.expr) -> None:
        """A line binds names to parts of what ``through`` gives; by ``zip`` each to its own."""
        zipped = isinstance(through, ast.Call) and name_of(through.func) == "zip"
        parts = through.args if isinstance(through, ast.Call) and zipped else []
        if isinstance(target, ast.Tuple) and len(parts) == len(target.elts):
            for one, own in zip(target.elts, parts, strict=True):
                self.goes_through(one, own)
            return
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                several = node.id in self.weights or not isinstance(target, ast.Name)
                self.weights[node.id] = None if several else through


@dataclass(frozen=True, eq=False)
class SourceNode:
    """A node of the source, the scope that it is in, and whether a loop is around it there."""

    at: ast.AST
    scope: Scope
    loop: bool


@dataclass(frozen=True, eq=False)
class _Mention:
    scope: Scope
    loop: bool
    called: bool


class ScriptSources:
    """All of them, read once: ``nodes`` in the order of the text."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self.nodes = list[SourceNode]()
        self.functions = set[str]()
        self.definitions = list[ast.FunctionDef | ast.AsyncFunctionDef]()
        self._mentions = dict[str, list[_Mention]]()
        self._again = dict[Scope, bool]()
        for path, tree in trees.items():
            scope = Scope(path, "")
            for child in tree.body:
                self._read(child, scope, loop=False)

    def is_repeated(self, node: SourceNode) -> bool:
        """Whether its lines may run again and again."""
        return not self.is_dead(node.scope) and (node.loop or self.runs_again(node.scope))

    def is_dead(self, scope: Scope | None) -> bool:
        """Whether no line mentions the function, or one around it, and no framework may."""
        while scope is not None and scope.name:
            seen = scope.framework or _is_hidden(scope)
            if not seen and not self._asked(scope):
                return True
            scope = scope.parent
        return False

    def _asked(self, scope: Scope) -> list[_Mention]:
        """Where others mention the function, or the class that it makes one of."""
        name = scope.owner if scope.name in _MAKING else scope.name
        return [o for o in self._mentions.get(name, ()) if not _is_inside(o.scope, scope)]

    def runs_again(self, scope: Scope) -> bool:
        """Whether the function may be called more than once, or by somebody who is not seen."""
        if scope not in self._again:
            self._again[scope] = False  # where it calls itself alone
            self._again[scope] = self._may_run_again(scope)
        return self._again[scope]

    def _may_run_again(self, scope: Scope) -> bool:
        if not scope.name:
            return False
        made, asked = scope.name in _MAKING, self._asked(scope)
        by_name = scope.decorated and bool(asked) and all(one.called for one in asked)
        if _is_hidden(scope) and not by_name:  # as `@hydra.main` and `main()` are called
            return True
        if scope.framework and not made and not asked:
            return True
        return any(
            one.loop or not (one.called or made) or self.runs_again(one.scope) for one in asked
        )

    def _read(self, at: ast.AST, scope: Scope, *, loop: bool, owner: str = "") -> None:
        self.nodes.append(SourceNode(at, scope, loop))
        if isinstance(at, ast.ClassDef):
            self._read_class(at, scope, loop=loop)
        elif isinstance(at, _FUNCTIONS):
            self._read_function(at, scope, loop=loop)
        elif isinstance(at, _LOOPS):
            self._read_loop(at, scope, loop=loop)
        else:
            self._mention(at, scope, loop=loop)
            if isinstance(at, ast.Assign) and over_weights(at.value):
                for one in at.targets:
                    scope.goes_through(one, at.value)
            inside = loop or isinstance(at, _EACH)
            for child in ast.iter_child_nodes(at):
                if isinstance(child, ast.comprehension) and over_weights(child.iter):
                    scope.goes_through(child.target, child.iter)
                self._read(child, scope, loop=inside)

    def _read_loop(
        self, at: ast.For | ast.AsyncFor | ast.While, scope: Scope, *, loop: bool
    ) -> None:
        head: list[ast.AST] = [at.test] if isinstance(at, ast.While) else [at.target, at.iter]
        again = True
        if not isinstance(at, ast.While) and over_weights(at.iter):
            scope.goes_through(at.target, at.iter)
            again = loop if _goes_through(at.iter, _WEIGHTS) else True
        for child in head:
            self._read(child, scope, loop=loop)
        for child in (*at.body, *at.orelse):
            self._read(child, scope, loop=again)

    def _read_class(self, at: ast.ClassDef, scope: Scope, *, loop: bool) -> None:
        for head in (*at.bases, *(one.value for one in at.keywords), *at.decorator_list):
            self._read(head, scope, loop=loop)
        bases = {name_of(one) for one in at.bases}
        framework = bool(bases - {*_OF_NO_FRAMEWORK, ""} - self.functions)
        if not framework:
            self.functions.add(at.name)
        for child in at.body:
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                self._read_function(child, scope, loop=loop, owner=at.name, framework=framework)
            else:
                self._read(child, scope, loop=loop)

    def _read_function(
        self,
        at: _Function,
        scope: Scope,
        *,
        loop: bool,
        owner: str = "",
        framework: bool = False,
    ) -> None:
        name = "<lambda>" if isinstance(at, ast.Lambda) else at.name
        decorators = [] if isinstance(at, ast.Lambda) else at.decorator_list
        for child in (*decorators, *at.args.defaults, *filter(None, at.args.kw_defaults)):
            self._read(child, scope, loop=loop)
        given = (*at.args.posonlyargs, *at.args.args, *at.args.kwonlyargs)
        called = frozenset(one.arg for one in given)
        own = Scope(scope.path, name, scope, owner, framework, _changes(decorators), called)
        self.functions.add(name)
        self.definitions += [] if isinstance(at, ast.Lambda) else [at]
        body: Sequence[ast.AST] = at.body if isinstance(at.body, list) else [at.body]
        for line in body:
            self._read(line, own, loop=False)

    def _mention(self, at: ast.AST, scope: Scope, *, loop: bool) -> None:
        if isinstance(at, ast.Name) and _is_stored(at):
            scope.stored.add(at.id)
        elif isinstance(at, ast.Global):
            scope.beyond |= set(at.names)
        elif isinstance(at, ast.Call):
            self._note(name_of(at.func), scope, loop=loop, called=True)
        elif isinstance(at, ast.Constant) and isinstance(at.value, str):
            self._note(at.value, scope, loop=loop, called=False)
        for child in ast.iter_child_nodes(at):
            handed = not (isinstance(at, ast.Call) and child is at.func)
            if handed and isinstance(child, ast.Name | ast.Attribute) and not _is_stored(child):
                whole = not isinstance(at, ast.Attribute)
                if whole:
                    self._note(name_of(child), scope, loop=loop, called=False)

    def _note(self, name: str, scope: Scope, *, loop: bool, called: bool) -> None:
        self._mentions.setdefault(name, []).append(_Mention(scope, loop, called))


def _is_hidden(scope: Scope) -> bool:
    """Whether it may be called without its name."""
    called = scope.name.startswith("__") or scope.name in ("forward", "<lambda>")
    return scope.decorated or (called and scope.name not in _MAKING)


def _changes(decorators: Iterable[ast.expr]) -> bool:
    """Whether the function may be called by another name than its own."""
    return any(name_of(one) not in _PLAIN for one in decorators)


def name_of(at: ast.AST) -> str:
    """The last name of what it is: that of a variable, an attribute, or what is called or indexed;
    empty where it has none."""
    if isinstance(at, ast.Name):
        return at.id
    if isinstance(at, ast.Attribute):
        return at.attr
    if isinstance(at, ast.Call):
        return name_of(at.func)
    return name_of(at.value) if isinstance(at, ast.Subscript | ast.Starred) else ""


def first_name_of(at: ast.AST) -> str:
    """The first name of what it is."""
    while isinstance(at, ast.Attribute | ast.Subscript | ast.Call):
        at = at.func if isinstance(at, ast.Call) else at.value
    return at.id if isinstance(at, ast.Name) else ""


def over_weights(at: ast.AST) -> bool:
    """Whether what a loop goes through may be weights of networks."""
    return _goes_through(at, _PAIRS)


def _goes_through(at: ast.AST, kinds: Iterable[str]) -> bool:
    called = [name_of(one.func) for one in ast.walk(at) if isinstance(one, ast.Call)]
    return any(part in name for name in called for part in kinds)


def _is_stored(at: ast.Name | ast.Attribute) -> bool:
    return isinstance(at.ctx, ast.Store | ast.Del)


def _is_inside(scope: Scope | None, outer: Scope) -> bool:
    while scope is not None:
        if scope is outer:
            return True
        scope = scope.parent
    return False
