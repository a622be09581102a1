"""Live objects as the components of a spec, by the arguments that they were made with."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import torch
from tensordict.nn import TensorDictSequential
from torch import Tensor, nn
from torchrl.data import TensorSpec
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor

from rnncheck.pipeline.assembly import components as c
from rnncheck.watching.saving.import_paths import CannotKeep, Home, path_of
from rnncheck.watching.seams.parts import MADE_THERE
from rnncheck.watching.seen import Making, Returned

Form = dict[str, Any]
SHARED = "rnncheck.roles:policy_module"
_OF_THE_ENV = ("spec", "action_space", "action_spec")  # rnncheck takes them from the env
_MOST_NUMBERS = 64  # of a tensor that is written out


class Forms:
    """Gives objects their forms; ``named`` says whether a module of the script's was named."""

    def __init__(
        self,
        home: Home,
        makings: Mapping[int, Making],
        returned: Mapping[int, list[Returned]] | None = None,
    ) -> None:
        self._home, self._makings, self.named = home, makings, False
        self._returned = returned or {}

    def made(self, value: Any) -> Making | None:
        """How the script made it; None where it did not."""
        return self._makings.get(id(value))

    def arguments(self, value: Any) -> dict[str, Any]:
        """What it was made with, by name. Raises CannotKeep where that was not seen."""
        making = self.made(value)
        if making is None:
            raise CannotKeep(f"how the {type(value).__name__} was made was not seen")
        return arguments_given(type(value), making)

    def made_in(self, code: Any, kind: type) -> Any:
        """The last object of a kind that was made while a function of the script's was under way;
        None where none was."""
        found = [one.made for one in self._makings.values() if code in one.inside]
        return next((one for one in reversed(found) if isinstance(one, kind)), None)

    def component(self, value: Any, leave_out: Iterable[str] = ()) -> Form:
        """``{use: ..., ...}``, or ``factory`` for a class of the script's."""
        kind = type(value)
        if getattr(kind, "__init__", None) is not _own_init(kind):
            return self._own(value, leave_out)
        named = self._class(kind)
        args = {} if kind.__init__ is nn.Module.__init__ else self.arguments(value)
        mine = [name for name in args if name not in set(leave_out) and name[:1] != "_"]
        left = {name: args[name] for name in mine}
        return {**named, **self.forms(left)}

    def function(self, value: Any) -> Form:
        """``{factory: module:function}`` with the arguments that are bound to it."""
        if isinstance(value, functools.partial):
            if value.args:
                raise CannotKeep("a partial with arguments that have no names")
            return {**self.function(value.func), **self.forms(value.keywords)}
        if not inspect.isfunction(value):
            raise CannotKeep(f"a {type(value).__name__} is no function that can be named")
        told = path_of(value, self._home)
        self.named = True
        return {"factory": told}

    def _class(self, kind: type) -> Form:
        if f"{kind.__module__}.".startswith(MADE_THERE):
            for where in (c.ANY, c.TRANSFORM, c.COLLECTOR):
                if c.public_class(kind.__name__, where) is kind:
                    return {"use": kind.__name__}
            raise CannotKeep(f"{kind.__name__} has no public name in TorchRL")
        told = path_of(kind, self._home)
        self.named = True
        return {"factory": told}

    def _own(self, value: Any, leave_out: Iterable[str] = ()) -> Form:
        """A class of the script's with a constructor of its own, which gets plain data alone."""
        kind, making = type(value), self.made(value)
        if making is None or not making.own:
            raise CannotKeep(f"how the script's own {kind.__name__} was made was not seen")
        named, left = self._class(kind), set(leave_out)
        told = arguments_given(kind, making)
        return named | {k: _plain(kind, k, v) for k, v in told.items() if k not in left}

    def forms(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as plain data; what the env says of itself is left out."""
        plain = {}
        for name, value in args.items():
            if not (name in _OF_THE_ENV and isinstance(value, TensorSpec)):
                plain[name] = self.value(name, value)
        return plain

    def value(self, name: str, value: Any) -> Any:
        """One argument. Raises CannotKeep where a spec cannot say it."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, (torch.dtype, torch.device)):
            return str(value)
        if isinstance(value, enum.Enum):
            return value.name.lower()
        if isinstance(value, (list, tuple)):
            return [self.value(name, one) for one in value]
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {key: self.value(key, one) for key, one in value.items()}
        if isinstance(value, Tensor) and value.numel() <= _MOST_NUMBERS:
            return value.tolist()
        if isinstance(value, type) and name.endswith("_class"):
            return _class_name(name, value)
        if isinstance(value, nn.Module):
            return self.module(value)
        raise CannotKeep(f"`{name}` is a {type(value).__name__}, which a spec cannot say")

    def module(self, value: nn.Module) -> Form:
        """A plain module: torch's Sequential holds others."""
        if type(value) is not nn.Sequential:
            return self.component(value)
        return {"use": "Sequential", "modules": [self.module(one) for one in value]}

    def network(self, value: Any, beside: Any = None) -> list[Form]:
        """The list of modules that a policy or a critic is. What it has in common with the network
        ``beside`` is named there."""
        try:
            found = list[Form]()
            for part in _parts_of(value, self):
                leaf = part is value
                found += self._leaf(part, beside) if leaf else self.network(part, beside)
            return found
        except CannotKeep:
            if (made := self._by_function(value, beside)) is None:
                raise
            return [made]

    def _by_function(self, value: Any, beside: Any) -> Form | None:
        """The function of the script's that returned it, the outermost that a spec can call; what
        has weights of another network is not made anew."""
        shared = {id(one) for one in beside.parameters()} if beside is not None else set()
        if any(id(one) in shared for one in getattr(value, "parameters", tuple)()):
            return None
        for function, given in reversed(self._returned.get(id(value), [])):
            with suppress(CannotKeep):
                rest = {k: v for k, v in given.items() if not _is_offered(k, v)}
                args = {k: _plain(function, k, v) for k, v in rest.items()}
                return self.function(function) | args
        return None

    def _leaf(self, leaf: Any, beside: Any) -> list[Form]:
        theirs = {id(one) for one in modules_run(beside, self)} if beside is not None else set()
        if id(leaf) in theirs:
            return [{"factory": SHARED, "writes": _keys(leaf.out_keys)}]
        inside = {id(one) for one in beside.modules()} if beside is not None else set()
        if not isinstance(leaf, nn.Module):
            raise CannotKeep(f"a {type(leaf).__name__} is no module")
        if any(id(one) in inside for one in leaf.modules()):
            raise CannotKeep(f"the {type(leaf).__name__} has layers in common with the policy")
        if isinstance(leaf, ProbabilisticActor):
            return [self.component(leaf, ["module"])]
        if type(leaf).__name__ not in ("TensorDictModule", "SafeModule"):
            return [self.component(leaf)]
        args = self.arguments(leaf)
        module = args.pop("module")
        if not isinstance(module, nn.Module):
            raise CannotKeep(f"a {type(leaf).__name__} around a function")
        return [{**self.module(module), **self.forms(args)}]


def _plain(kind: Any, name: str, value: Any) -> Any:
    """An argument that a spec hands on as it is: what its text gives must be what was given."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_plain(kind, name, one) for one in value]
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {key: _plain(kind, name, one) for key, one in value.items()}
    what = type(value).__name__
    raise CannotKeep(f"`{name}` of the script's own {kind.__name__} is a {what}, no plain data")


def modules_run(value: Any, forms: Forms) -> list[Any]:
    """The modules of a network in the order in which they run; an actor stands behind what it draws
    from."""
    parts = _parts_of(value, forms)
    return [leaf for one in parts for leaf in ([one] if one is value else modules_run(one, forms))]


def _parts_of(value: Any, forms: Forms) -> list[Any]:
    """What the network runs one after the other; itself where a spec makes it as a whole."""
    making = forms.made(value)
    if making is not None and making.own:
        return [value]
    if isinstance(value, ProbabilisticActor) and making is not None:
        return [forms.arguments(value)["module"], value]
    if isinstance(value, TensorDictSequential) and not isinstance(value, ProbabilisticActor):
        if not type(value).__module__.startswith(MADE_THERE):
            raise CannotKeep(f"{type(value).__name__} is the script's own class")
        return list(value.module)
    return [value]


def _is_offered(name: str, value: Any) -> bool:
    """What a factory of a spec is given by its name."""
    return (name == "env" and isinstance(value, EnvBase)) or (
        name == "create_env_fn" and callable(value)
    )


def arguments_given(kind: type, making: Making, method: str = "__init__") -> dict[str, Any]:
    """The arguments of a call of a class, or of a method of its objects, by name."""
    try:
        signature = inspect.signature(getattr(kind, method))
        bound = signature.bind(making.made, *making.args, **making.kwargs).arguments
    except (TypeError, ValueError) as error:
        raise CannotKeep(f"the arguments of {type(making.made).__name__} have no names") from error
    kinds = {name: one.kind for name, one in signature.parameters.items()}
    named = {k: v for k, v in list(bound.items())[1:] if kinds[k] is not _OPEN}
    more: dict[str, Any] = next((v for k, v in bound.items() if kinds[k] is _OPEN), {})
    return {**named, **more}


_OPEN = inspect.Parameter.VAR_KEYWORD


def _own_init(kind: type) -> Any:
    """The constructor that the libraries gave it: its arguments were seen."""
    own = [one for one in kind.__mro__ if f"{one.__module__}.".startswith(MADE_THERE)]
    return getattr(own[0], "__init__", None) if own else None


def _class_name(name: str, value: type) -> str:
    kind = c.DISTRIBUTION if name == "distribution_class" else c.NN_MODULE
    if c.public_class(value.__name__, kind) is not value:
        raise CannotKeep(f"`{name}` is {value.__name__}, which has no public name in TorchRL")
    return value.__name__


def _keys(keys: Iterable[Any]) -> list[Any]:
    return [key if isinstance(key, str) else list(key) for key in keys]
