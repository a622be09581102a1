"""Whether any line of a script may still write into the weights of a network, read from its source:
what is written by no line that may run again stays as it is."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn
from torchrl.objectives import TargetNetUpdater

from rnncheck.pipeline.copying.closures import is_users_type
from rnncheck.pipeline.guard.user_frames import is_user_file
from rnncheck.watching.forms.held_names import HeldNames, has_weights
from rnncheck.watching.forms.source_scopes import (
    ScriptSources,
    SourceNode,
    first_name_of,
    name_of,
    over_weights,
)
from rnncheck.watching.forms.weights_handed import WeightsHanded

_BY_MODULES = ("load_state_dict", "update_parameters", "swap_tensors")  # called on one
_IN_PLACE = (
    *("copy_", "lerp_", "mul_", "add_", "sub_", "div_", "set_", "fill_", "zero_", "addcmul_"),
    *("update_", "apply_"),
)
_MAKERS = frozenset(
    {"new", "new_zeros", "new_empty", "new_ones", "new_full", "new_tensor", "clone", "tensor"}
    | {"zeros", "zeros_like", "empty", "empty_like", "ones", "ones_like", "full", "full_like"}
)
_OF_MANY = ("_foreach_", "vector_to_parameters", "soft_update", "polyak")  # in functions' names
_THROUGH = ("enumerate", "iter", "next", "zip", "len", "tqdm", "isinstance", "print", "hasattr")
_OF_COLLECTORS = ("shutdown", "set_seed", "reset", "total_frames", "frames_per_batch", "next")
_OWN = ("torch", "torchrl", "tensordict", "gymnasium", "gym", "numpy", "rnncheck", "__main__")

Line = tuple[str, int]


class LaterWrites:
    """Asks the sources of single networks, by the ids of their weights and the addresses of what
    these hold. ``updaters`` are all that there are of TorchRL's."""

    def __init__(
        self, sources: ScriptSources, held: HeldNames, updaters: Sequence[TargetNetUpdater]
    ) -> None:
        self._sources, self._held, self._updaters = sources, held, updaters
        self._imports, self._handed = dict(_imported(sources)), WeightsHanded(sources, held)
        self._holds = dict[int, bool]()  # by the id of an object, of the weights that are asked for

    def first(self, weights: set[int], collector: Any = None) -> Line | None:
        """File and line of the first place that may write them again and again; None where there
        is none. Line 0 where something may that no line shows. A ``collector`` may hold them, and
        be told to take others."""
        self._holds.clear()
        if collector is not None and (found := self._by(collector)) is not None:
            return found
        named = any(self._has(one, weights) for one in self._held.networks())
        if collector is None and not named:
            return "", 0
        for one in self._updaters:
            holds = has_weights(one.loss_module, weights)
            if holds and (found := self._of_updater(one)) is not None:
                return found
        for node in self._sources.nodes:
            if self._may(node, weights) and self._sources.is_repeated(node):
                return node.scope.path, getattr(node.at, "lineno", 0)
        return None

    def _by(self, collector: Any) -> Line | None:
        """The first place that has the collector for more than its batches."""
        names = self._held.names_of(collector)
        if not names:
            return "", 0
        for node in self._sources.nodes:
            for child in ast.iter_child_nodes(node.at):
                read = isinstance(child, ast.Name | ast.Attribute) and name_of(child) in names
                if not read or not isinstance(getattr(child, "ctx", None), ast.Load):
                    continue
                if not _collects_alone(node.at, child) and not self._sources.is_dead(node.scope):
                    return node.scope.path, getattr(child, "lineno", 0)
        return None

    def _of_updater(self, updater: TargetNetUpdater) -> Line | None:
        """The first place that has it for more than to make it."""
        names = self._held.names_of(updater)
        if not names:
            return "", 0
        for node in self._sources.nodes:
            made = isinstance(node.at, ast.Attribute) and node.at.attr == "init_"
            unread = made or self._sources.is_dead(node.scope)
            for child in () if unread else ast.iter_child_nodes(node.at):
                if not isinstance(child, ast.Name | ast.Attribute) or name_of(child) not in names:
                    continue
                read = isinstance(child.ctx, ast.Load)
                if read and not self._is_handed_on(node.at, child):
                    return node.scope.path, child.lineno
        return None

    def _is_handed_on(self, at: ast.AST, child: ast.AST) -> bool:
        """Whether it is an argument of a function of the script's, whose own lines are read."""
        if isinstance(at, ast.Call) and any(child is one for one in at.args):
            return name_of(at.func) in self._sources.functions
        return False

    def _may(self, node: SourceNode, weights: set[int]) -> bool:
        def has(one: Any) -> bool:
            return self._has(one, weights)

        def whole(one: Any) -> bool:
            return isinstance(one, nn.Module) and all(id(p) in weights for p in one.parameters())

        return self._may_write(node, weights) or self._handed.handed(node, has, whole)

    def _may_write(self, node: SourceNode, weights: set[int]) -> bool:
        at = node.at
        if isinstance(at, ast.Call):
            return self._may_write_by_call(at, node, weights)
        targets: list[ast.expr] = []
        if isinstance(at, ast.Assign):
            targets = at.targets
        elif isinstance(at, ast.AugAssign | ast.AnnAssign):
            targets = [at.target]
        return any(self._may_bind(one, node, weights) for one in targets)

    def _may_bind(self, target: ast.expr, node: SourceNode, weights: set[int]) -> bool:
        """An assignment: of the network itself, or of what a loop over weights goes through."""
        if isinstance(target, ast.Tuple | ast.List):
            return any(self._may_bind(one, node, weights) for one in target.elts)
        changes = isinstance(node.at, ast.AugAssign) or isinstance(target, ast.Attribute)
        owner = _owner(target)
        if changes and name_of(owner) in node.scope.weights:
            return self._goes_through(name_of(owner), node, weights)
        return self._held_there(owner, node, weights) is True

    def _may_write_by_call(self, at: ast.Call, node: SourceNode, weights: set[int]) -> bool:
        name = name_of(at.func)
        if any(part in name for part in _OF_MANY):
            return name not in self._sources.functions  # else its own lines tell
        if name == "setattr" and at.args:
            return self._held_there(at.args[0], node, weights) is not False
        if isinstance(at.func, ast.Attribute) and name in _BY_MODULES:
            return self._held_there(at.func.value, node, weights) is not False
        if isinstance(at.func, ast.Attribute) and name in _IN_PLACE:
            if _is_new(at.func.value):
                return False
            same = name == "copy_" and [*map(ast.dump, at.args)] == [ast.dump(at.func.value)]
            return not same and self._is_of_weights(_owner(at.func.value), node, weights)
        given = [*at.args, *(one.value for one in at.keywords)]
        mine = any(self._held_there(one, node, weights) is True for one in given)
        return mine and self._is_foreign(at.func, node)

    def _is_of_weights(self, owner: ast.AST, node: SourceNode, weights: set[int]) -> bool:
        if name_of(owner) in node.scope.weights:
            return self._goes_through(name_of(owner), node, weights)
        if over_weights(owner):
            return True
        return self._held_there(owner, node, weights) is not False

    def _goes_through(self, name: str, node: SourceNode, weights: set[int]) -> bool:
        """Whether the loop that binds the name may go through the weights."""
        through = node.scope.weights[name]
        if through is None or not isinstance(through, ast.Call):
            return True
        whose = through.func.value if isinstance(through.func, ast.Attribute) else through
        return self._held_there(whose, node, weights) is not False

    def _held_there(self, at: ast.AST, node: SourceNode, weights: set[int]) -> bool | None:
        """Whether it stands for something with the weights; None where that is not known."""
        found = self._held.of(at, node.scope)
        return None if not found else any(self._has(one, weights) for one in found)

    def _has(self, value: Any, weights: set[int]) -> bool:
        if id(value) not in self._holds:
            self._holds[id(value)] = has_weights(value, weights)
        return self._holds[id(value)]

    def _is_foreign(self, function: ast.AST, node: SourceNode) -> bool:
        """Whether it is of a package whose lines are not read, and which is none of the known."""
        root = first_name_of(function)
        if package := self._imports.get(root, ""):
            return _is_foreign_package(package)
        whose = function.value if isinstance(function, ast.Attribute) else function
        return any(_is_foreign_type(type(one)) for one in self._held.of(whose, node.scope) or ())


def _is_foreign_type(kind: type) -> bool:
    package = kind.__module__.partition(".")[0]
    return package != "builtins" and not is_users_type(kind) and _is_foreign_package(package)


def _is_foreign_package(name: str) -> bool:
    if name in _OWN or name in sys.stdlib_module_names:
        return False
    module = sys.modules.get(name)
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return not any(is_user_file(one) for one in places if one)


def _collects_alone(at: ast.AST, child: ast.AST) -> bool:
    """Whether a collector is asked for batches there, or told nothing of a policy."""
    if isinstance(at, ast.For | ast.comprehension):
        return at.iter is child
    if isinstance(at, ast.Call):
        return at.func is not child and name_of(at.func) in _THROUGH
    return isinstance(at, ast.Attribute) and at.attr in _OF_COLLECTORS


def _is_new(at: ast.AST) -> bool:
    """Whether it is a tensor that the line itself makes: ``p.data.new().resize_as_(p.data)``."""
    while isinstance(at, ast.Call):
        if name_of(at.func) in _MAKERS:
            return True
        at = at.func.value if isinstance(at.func, ast.Attribute) else at.func
    return False


def _owner(at: ast.AST) -> ast.AST:
    """Whose ``.data`` or element it is."""
    while isinstance(at, ast.Subscript) or (isinstance(at, ast.Attribute) and at.attr == "data"):
        at = at.value
    return at


def _imported(sources: ScriptSources) -> Iterator[tuple[str, str]]:
    """By name the package that it comes from; a module of the user's is none."""
    for node in sources.nodes:
        at = node.at
        if isinstance(at, ast.Import):
            for one in at.names:
                yield one.asname or one.name.partition(".")[0], one.name.partition(".")[0]
        elif isinstance(at, ast.ImportFrom) and at.module and not at.level:
            for one in at.names:
                yield one.asname or one.name, at.module.partition(".")[0]
