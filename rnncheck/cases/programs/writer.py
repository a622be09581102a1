"""Objects as the calls that made them."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn

from rnncheck.cases.model import CaseError
from rnncheck.cases.programs.texts import code_of
from rnncheck.pipeline.assembly.env_maker import EnvMaker
from rnncheck.pipeline.assembly.made import MadeCall

_PUBLIC = (  # where a class is imported from: the shortest first
    "torchrl.envs",
    "torchrl.modules",
    "torchrl.data",
    "torchrl.collectors",
    "torchrl.objectives",
    "torchrl.objectives.value",
    "torchrl.data.replay_buffers",
    "torchrl.envs.utils",
    "tensordict.nn",
    "torch.nn",
    "torch.distributions",
)
_LEFT_OUT = ("device", "scratch_dir")  # of this machine
_SPECS = ("spec", "action_spec")  # what a program need not say, or says in other words


class Writer:
    """Writes values as expressions. ``names`` are the objects that the program has by name,
    ``imports`` what it imports, by module."""

    def __init__(self, made: list[MadeCall]) -> None:
        self.imports: dict[str, set[str]] = {}
        self.own = False  # whether modules of the user's are imported
        self.has_whole_env = False  # whether the networks are there, whose states an env primes
        self._named: dict[int, str] = {}
        self._made = {id(one.value): one for one in made if not _is_plain(one.value)}

    def name(self, value: Any, name: str) -> None:
        """From here on the program has ``value`` under this name."""
        self._named[id(value)] = name

    def uses(self, module: str, *names: str) -> None:
        """The program imports these names."""
        self.imports.setdefault(module, set()).update(names)

    def written(self, value: Any) -> str:
        """``value`` as an expression. Raises CaseError where it cannot be one."""
        if id(value) in self._named:
            return self._named[id(value)]
        if id(value) in self._made:
            return self.call(self._made[id(value)])
        if _is_env(value):
            return "whole_env()" if self.has_whole_env else "new_env()"
        for kinds, write in _BY_KIND:
            if isinstance(value, kinds):
                return str(write(self, value))
        if isinstance(value, nn.Module) and hasattr(value, "module"):
            return self._wrapping(value)
        if inspect.isfunction(value) or isinstance(value, type):
            return self._imported(value)
        raise CaseError(f"a {type(value).__name__} cannot be written into a program")

    def call(self, made: MadeCall) -> str:
        """The call that made it."""
        component = made.component
        if component.factory is not None:
            module, _, name = component.factory.partition(":")
            self.uses(module, name.partition(".")[0])
            self.own = True
        else:
            name = self._imported(made.by)
        said = [self.written(one) for one in made.rest]
        return f"{name}({', '.join([*said, *self.arguments(made)])})"

    def arguments(self, made: MadeCall) -> Iterator[str]:
        """Its arguments by name."""
        for name, value in made.args.items():
            if name in _LEFT_OUT:
                continue
            if _is_spec(value) and id(value) not in self._made:
                yield from self._in_other_words(name, value, made)
            else:
                yield f"{name}={self.written(value)}"

    def _in_other_words(self, name: str, value: Any, made: MadeCall) -> Iterator[str]:
        """A spec of TorchRL's, for which most classes take a word as well."""
        takes = getattr(made.value, "action_space", None)
        if name == "spec" and isinstance(takes, str):
            yield f"action_space={code_of(takes)}"
        elif name == "action_space":
            yield f"action_space={code_of(takes if isinstance(takes, str) else 'categorical')}"
        elif name not in _SPECS:
            raise CaseError(f"{type(value).__name__} cannot be written into a program")

    def _imported(self, value: Any) -> str:
        """The name of a class or function, which the program then imports."""
        name: str = value.__name__
        homes = [one for one in _PUBLIC if getattr(import_module(one), name, None) is value]
        home = homes[0] if homes else value.__module__
        if home == "torch.nn":
            self.uses("torch", "nn")
            return f"nn.{name}"
        self.uses(home, name)
        self.own = self.own or not home.startswith(("torch", "tensordict"))
        return name

    def _sequence(self, value: TensorDictSequential) -> str:
        self.uses("tensordict.nn", "TensorDictSequential")
        return f"TensorDictSequential({', '.join(map(self.written, value.module))})"

    def _layers(self, value: nn.Sequential) -> str:
        self.uses("torch", "nn")
        return f"nn.Sequential({', '.join(map(self.written, value))})"

    def _wrapping(self, value: Any) -> str:
        if type(value) is not TensorDictModule:
            raise CaseError(f"a {type(value).__name__} cannot be written into a program")
        self.uses("tensordict.nn", "TensorDictModule")
        keys = f"in_keys={code_of(value.in_keys)}, out_keys={code_of(value.out_keys)}"
        return f"TensorDictModule({self.written(value.module)}, {keys})"

    def _mapping(self, value: Mapping[Any, Any]) -> str:
        entries = (f"{code_of(key)}: {self.written(one)}" for key, one in value.items())
        return f"{{{', '.join(entries)}}}"

    def _list(self, value: list[Any] | tuple[Any, ...]) -> str:
        inner = ", ".join(map(self.written, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner}{',' if len(value) == 1 else ''})"

    def _enum(self, value: enum.Enum) -> str:
        return f"{self._imported(type(value))}.{value.name}"


def _exact(value: Tensor) -> str:
    return f"torch.tensor({value.tolist()}, dtype={value.dtype})"


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | TensorDictBase)


def _is_spec(value: Any) -> bool:
    from tensordict.base import is_tensor_collection

    names = {one.__name__ for one in type(value).__mro__}
    return "TensorSpec" in names and not is_tensor_collection(value)


def _is_env(value: Any) -> bool:
    return "EnvBase" in {one.__name__ for one in type(value).__mro__}


_BY_KIND: tuple[tuple[Any, Any], ...] = (
    (TensorDictBase, lambda _, value: "sample"),
    (enum.Enum, Writer._enum),
    ((str, int, float, type(None)), lambda _, value: code_of(value)),
    (torch.Size, lambda _, value: code_of(list(value))),
    ((list, tuple), Writer._list),
    (Mapping, Writer._mapping),
    ((torch.dtype,), lambda _, value: str(value)),
    (Tensor, lambda _, value: _exact(value)),
    (TensorDictSequential, Writer._sequence),
    (nn.Sequential, Writer._layers),
    (EnvMaker, lambda _, value: "whole_env"),
)
