"""Lines that do more with a network than to run it: what they hand on may be written by others."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable
from typing import Any

from torch import nn

from rnncheck.pipeline.guard.user_frames import is_user_file
from rnncheck.watching.forms.held_names import HeldNames
from rnncheck.watching.forms.source_scopes import Scope, ScriptSources, SourceNode, name_of
from rnncheck.watching.forms.weights_read import are_read_alone

# By which the weights of a network, or the networks inside one, are taken out of it.
_OUT = frozenset(
    {"parameters", "named_parameters", "state_dict", "load_state_dict", "buffers", "named_buffers"}
    | {"modules", "named_modules", "children", "named_children", "data", "apply", "__dict__"}
    | {"get_parameter", "get_submodule", "values", "items", "_parameters", "_modules"}
)
_LOOKS = frozenset({"isinstance", "id", "print", "len", "type", "repr", "str", "callable"})
_HANDING_THROUGH = ("__getattr__", "__getattribute__")
_BY_STRINGS = frozenset({"globals", "locals", "exec", "eval", "vars", "methodcaller", "attrgetter"})
_OF_GRADIENTS = ("clip_grad", "Adam", "SGD", "RMSprop", "optim", "Optim", "zero_grad", "norm")
_TESTS = (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.If, ast.While, ast.Assert, ast.IfExp, ast.Expr)
_DEEPEST = 3  # functions that hand it on to another one: chosen
_CALLED = (types.FunctionType, types.MethodType, types.BuiltinMethodType)

Has = Callable[[Any], bool]


class WeightsHanded:
    """Asks single lines whether they take weights out of a network, or hand it on."""

    def __init__(self, sources: ScriptSources, held: HeldNames) -> None:
        self._sources, self._held = sources, held
        self._parents = dict[int, SourceNode]()
        self._named = dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]()
        self._for_gradients = set[int]()
        for node in sources.nodes:
            for child in ast.iter_child_nodes(node.at):
                self._parents[id(child)] = node
            if isinstance(node.at, ast.Call) and any(
                part in name_of(node.at.func) for part in _OF_GRADIENTS
            ):
                self._for_gradients |= {id(one) for one in ast.walk(node.at)}
        for definition in sources.definitions:
            self._named.setdefault(definition.name, []).append(definition)

    def handed(self, node: SourceNode, has: Has, whole: Has) -> bool:
        """Whether the line may do so: what ``has`` the weights, and what is their network as a
        ``whole`` and nothing else, by the objects that its names stand for."""
        at = node.at
        if isinstance(at, ast.Call) and self._is_by_strings(at, node.scope):
            return True
        if not isinstance(at, ast.Name | ast.Attribute) or not isinstance(at.ctx, ast.Load):
            return False
        objects = [one for one in self._held.of(at, node.scope) or () if has(one)]
        if not objects:
            return False
        strict = any(not isinstance(one, nn.Module) and _is_plain(one) for one in objects)
        strict = strict or any(whole(one) for one in objects)
        return self._is_used(at, strict=strict, callable_=any(map(_is_called, objects)))

    def _is_by_strings(self, at: ast.Call, scope: Scope) -> bool:
        name = name_of(at.func)
        if name == "getattr" and len(at.args) > 1:
            return not isinstance(at.args[1], ast.Constant) and not _is_handed_through(at, scope)
        return name in _BY_STRINGS and (isinstance(at.func, ast.Name) or name != "eval")

    def _is_used(
        self, at: ast.AST, *, strict: bool, callable_: bool = False, deep: int = 0
    ) -> bool:
        parent = self._parents.get(id(at))
        up = None if parent is None else parent.at
        if isinstance(up, ast.Attribute):
            taken = up.attr in _OUT and (strict or id(up) not in self._for_gradients)
            if taken and are_read_alone(up, self._parent_of):
                return False
            return taken or (strict and self._touches_weights(up.attr))
        if isinstance(up, ast.Call) and up.func is at:
            return callable_
        if isinstance(up, ast.Call):
            return strict and self._is_given(up, at, deep)
        if isinstance(up, ast.keyword):
            call = self._parents.get(id(up))
            given = call is not None and isinstance(call.at, ast.Call)
            return strict and not (given and not self._is_given(call.at, up, deep))  # type: ignore[union-attr, arg-type]
        if isinstance(up, ast.Subscript) and not strict:
            return False
        return strict and not isinstance(up, _TESTS)

    def _parent_of(self, at: ast.AST) -> ast.AST | None:
        found = self._parents.get(id(at))
        return None if found is None else found.at

    def _is_given(self, call: ast.Call, at: ast.AST, deep: int) -> bool:
        """Whether a function that it is an argument of may do so: the script's own are read."""
        name = name_of(call.func)
        if name in _LOOKS:
            return False
        functions = self._named.get(name, [])
        if isinstance(call.func, ast.Name):  # no method is called so
            functions = [o for o in functions if not isinstance(self._parent_of(o), ast.ClassDef)]
        if not functions or deep >= _DEEPEST:
            return True
        return any(self._takes_out(one, call, at, deep + 1) for one in functions)

    def _takes_out(
        self,
        function: ast.FunctionDef | ast.AsyncFunctionDef,
        call: ast.Call,
        at: ast.AST,
        deep: int,
    ) -> bool:
        given = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        given = given[1:] if given[:1] in (["self"], ["cls"]) else given
        if isinstance(at, ast.keyword):
            name = at.arg
        else:
            place = next((n for n, one in enumerate(call.args) if one is at), len(given))
            name = given[place] if place < len(given) else None
        if name is None:
            return True
        uses = (one for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == name)
        return any(self._is_used(one, strict=True, deep=deep) for one in uses)

    def _touches_weights(self, name: str) -> bool:
        """Whether a method of the script's by that name takes weights out of something."""
        return any(
            isinstance(one, ast.Attribute) and one.attr in _OUT
            for function in self._named.get(name, [])
            for one in ast.walk(function)
        )


def _is_handed_through(at: ast.Call, scope: Scope) -> bool:
    """Whether a ``__getattr__`` takes what it was asked for of what its object holds, as wrappers
    do: who asks names it."""
    through = scope.name in _HANDING_THROUGH and bool(scope.owner)
    return through and name_of(at.args[1]) in scope.arguments


def _is_plain(value: Any) -> bool:
    """A container, or what calls something: it has no lines of the user's own."""
    return isinstance(value, (list, tuple, dict)) or _is_called(value)


def _is_called(value: Any) -> bool:
    code = getattr(value, "__code__", None)
    own = isinstance(code, types.CodeType) and is_user_file(code.co_filename)
    return isinstance(value, (*_CALLED, functools.partial)) and not own
