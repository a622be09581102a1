"""A deep copy of whatever a user's pipeline is made of, where copy.deepcopy gives up or shares.

copy.deepcopy refuses a tensor that still has its graph, a lock, an open file; it takes a function
for an atom, so that a loss whose networks stand in its closure is not copied; and it gives the
parameters of a TensorDictParams a copy of their own beside the one that a network gets. Here a
tensor loses its graph, a lock is made anew, a file is opened again, a closure gets cells of its
own, and what is shared inside the original is shared inside the copy.

There is no way back to the original: what cannot be copied raises ``CannotCopy`` with where it is
and why. Only an env inside a policy or a loss is handed on as it is, unless it has parameters; one
of gymnasium's where it cannot be copied.
"""

from __future__ import annotations

import copy
import copyreg
import functools
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictParams
from torch import Tensor
from torchrl.envs import EnvBase

from rnncheck.errors import first_line
from rnncheck.pipeline.copying.closures import copied_function
from rnncheck.pipeline.copying.handles import HANDLES, is_namespace

T = TypeVar("T")
_ATOMS = {
    type(None), type(Ellipsis), type(NotImplemented), int, float, bool, complex, bytes, str, range,
    property, weakref.ref, types.CodeType, types.BuiltinFunctionType, types.ModuleType,
    torch.dtype, torch.device, torch.Size,
}  # fmt: skip
_ABSENT = object()
_GYMNASIUM = ("gymnasium.core.Env", "gymnasium.vector.vector_env.VectorEnv")


class CannotCopy(Exception):
    """Something of the user's cannot be copied; the message says what, where and why."""


def copy_of(value: T, what: str) -> T:
    """A copy of ``value``, which no run of it changes; ``what`` is its name in messages."""
    return Copier().whole(value, what)


class Copier:
    """Copies that belong together: what two of them share, their copies share too."""

    def __init__(self, *, lasting: bool = False) -> None:
        """``lasting`` where several wholes are copied, one of which may hold a copy of another."""
        self.memo: dict[int, Any] = {}  # as copy.deepcopy has it: __deepcopy__ methods expect it
        self._held = self.memo.setdefault(id(self.memo), [])  # where copy.deepcopy keeps them
        self._path: list[object] = []
        self._lasting = lasting

    def whole(self, value: T, what: str) -> T:
        """A copy of ``value``, which the user knows as ``what``."""
        self._path.clear()
        try:
            made: T = self.part(value)
        except Exception as error:  # whatever an object of the user's raises
            path = ".".join(_named(part) for part in self._path if part != "_modules")
            inside = f" ({path})" if path else ""
            raise CannotCopy(f"{what} cannot be copied{inside}: {first_line(error)}") from error
        if self._lasting:
            self._keep_copies()
        return made

    def _keep_copies(self) -> None:
        """What is a copy already is not copied again."""
        for made in [one for key, one in self.memo.items() if key != id(self.memo)]:
            self.remember(made, made)

    def part(self, value: Any) -> Any:
        """The copy of one object inside a whole."""
        if type(value) in _ATOMS:  # most of what there is
            return value
        known = self.memo.get(id(value), _ABSENT)
        if known is not _ABSENT:
            return known
        if isinstance(value, type):
            return value
        made = self._made(value)
        if made is not value and id(value) not in self.memo:
            self.remember(value, made)
        return made

    def remember(self, value: Any, made: Any) -> None:
        """Note the copy of ``value``, which must live as long as its id is a key."""
        self.memo[id(value)] = made
        self._held.append(value)

    def hold(self, value: Any) -> None:
        """Keep ``value`` alive as long as the memo."""
        self._held.append(value)

    def part_at(self, name: object, value: Any) -> Any:
        """The same, telling where it stands should it fail."""
        self._path.append(name)  # in words where that fails: a parameter may be a key
        made = self.part(value)
        self._path.pop()
        return made

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Where what is copied inside raises, nothing of it is remembered."""
        before, depth = dict(self.memo), len(self._path)
        try:
            yield
        except Exception:
            self.memo.clear()
            self.memo.update(before)
            del self._path[depth:]
            raise

    def _made(self, value: Any) -> Any:
        plain = _PLAIN.get(type(value))
        if plain is not None:
            return plain(self, value)
        for kind, make in _KINDS:
            if isinstance(value, kind):
                return make(self, value)
        own = _method_of(value, "__deepcopy__")
        what: Any = type(value)
        if own is None and _is_gymnasium_env(what):
            return self._env_or_itself(value)
        return self.reduced(value) if own is None else own(self.memo)

    def _env_or_itself(self, value: Any) -> Any:
        """One that shows pictures on a screen, say, and was closed, is asked for its spaces."""
        try:
            with self.undone():
                return self.reduced(value)
        except Exception:  # of whatever it holds
            return value

    def reduced(self, value: Any) -> Any:
        """Made anew of what pickle would be told of it."""
        registered = copyreg.dispatch_table.get(type(value))
        told = value.__reduce_ex__(4) if registered is None else registered(value)
        if isinstance(told, str):  # a name under which it is found: one for all
            return value
        make, args, state, items, pairs, setter = (*told, None, None, None, None)[:6]
        made = make(*[self.part(arg) for arg in args])
        self.remember(value, made)
        if state is not None:
            _set_state(made, self.part(state), setter)
        for number, item in enumerate(items or ()):
            made.append(self.part_at(number, item))
        for key, item in pairs or ():
            _set_item(made, self.part(key), self.part_at(key, item))
        return made


def _named(part: object) -> str:
    """A key or a number in words; of what else may be a key, such as a parameter, its kind."""
    return str(part) if isinstance(part, (str, int, float, tuple)) else type(part).__name__


def _method_of(value: Any, name: str) -> Any:
    """The method that its class has; a ``__getattr__`` of a user's may raise whatever it likes, or
    answer to any name."""
    return getattr(value, name) if getattr(type(value), name, None) is not None else None


def _set_state(made: Any, state: Any, setter: Callable[[Any, Any], None] | None) -> None:
    own = _method_of(made, "__setstate__")
    if setter is not None:
        setter(made, state)
    elif own is not None:
        own(state)
    else:
        plain, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if plain:  # what has slots alone has no dict
            made.__dict__.update(plain)
        for name, item in (slots or {}).items():
            setattr(made, name, item)


def _set_item(made: Any, key: Any, item: Any) -> None:
    """Not by the own setter of a dict, for which a key may be something else."""
    kinds = (kind for kind in (OrderedDict, dict) if isinstance(made, kind))
    next(kinds, type(made)).__setitem__(made, key, item)


def _dict(copier: Copier, value: dict[Any, Any]) -> dict[Any, Any]:
    if is_namespace(value):
        return value
    made: dict[Any, Any] = {}
    copier.remember(value, made)
    for key, item in value.items():
        made[copier.part(key)] = item if type(item) in _ATOMS else copier.part_at(key, item)
    return made


def _ordered(copier: Copier, value: OrderedDict[Any, Any]) -> OrderedDict[Any, Any]:
    """Every module has a dozen without entries, one for each kind of hook."""
    if value or vars(value):
        made: OrderedDict[Any, Any] = copier.reduced(value)
        return made
    return OrderedDict()


def _list(copier: Copier, value: list[Any]) -> list[Any]:
    made: list[Any] = []
    copier.remember(value, made)
    for number, item in enumerate(value):
        made.append(copier.part_at(number, item))
    return made


def _tuple(copier: Copier, value: tuple[Any, ...]) -> tuple[Any, ...]:
    made = tuple(copier.part_at(number, item) for number, item in enumerate(value))
    known: tuple[Any, ...] | None = copier.memo.get(id(value))
    if known is not None:  # it holds itself, by way of a list
        return known
    return value if all(map(_is, value, made)) else made


def _is(one: object, other: object) -> bool:
    return one is other


def _method(copier: Copier, value: types.MethodType) -> types.MethodType:
    function = value.__func__
    is_its_own = getattr(type(value.__self__), function.__name__, None) is function
    made = function if is_its_own else copier.part(function)
    return types.MethodType(made, copier.part(value.__self__))


def _tensor(copier: Copier, value: Tensor) -> Tensor:
    """With its storage shared as before, and with its ``grad``; without its graph."""
    held = value if value.is_leaf else value.detach()
    copier.hold(held)
    made: Tensor = copy.deepcopy(held, copier.memo)
    return made


def _tensordict(copier: Copier, value: TensorDictBase) -> TensorDictBase:
    """Its parameters are the copies that a module with the same ones gets; data is data."""
    leaves = list(value.values(True, True))
    if not any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves):
        return value.clone()
    made: TensorDictBase = value.apply(copier.part)
    return made


def _parameters(copier: Copier, value: TensorDictParams) -> TensorDictParams:
    inner = value._param_td.apply(copier.part)
    made = TensorDictParams(inner, no_convert="skip", lock=value._lock_content)
    made.no_convert = value.no_convert
    made.train(value.training)
    return made


def _env(copier: Copier, value: EnvBase) -> EnvBase:
    """A learned model of a world is computed with; another env is asked for its specs at most, and
    half a copy of it would close its processes."""
    learned = any(True for _ in value.parameters())
    made: EnvBase = copier.reduced(value) if learned else value
    return made


@functools.cache
def _is_gymnasium_env(kind: Any) -> bool:
    """Told by its bases: the package need not be there."""
    return any(f"{one.__module__}.{one.__name__}" in _GYMNASIUM for one in kind.__mro__)


_PLAIN: dict[type, Callable[[Copier, Any], Any]] = {
    dict: _dict,
    OrderedDict: _ordered,
    list: _list,
    tuple: _tuple,
    types.FunctionType: copied_function,
    types.MethodType: _method,
    **HANDLES,
}
_KINDS: tuple[tuple[type, Callable[[Copier, Any], Any]], ...] = (
    (Tensor, _tensor),
    (TensorDictParams, _parameters),
    (TensorDictBase, _tensordict),
    (EnvBase, _env),
)
