"""Which of the modules that a script called on a tensordict wrote an entry of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, TensorDictSequential
from torch import nn

from rnncheck.pipeline.copying.all_modules import all_modules
from rnncheck.watching.seen import CalledOn


def writers_of(
    keys: list[Any],
    data: TensorDictBase,
    calls: Iterable[CalledOn],
    outermost: Callable[[list[nn.Module]], list[nn.Module]] | None = None,
) -> Iterator[nn.Module]:
    """The modules that made the entries ``keys`` of ``data``, up to the last that writes one; not
    those that are called by another of them."""
    listed = list(calls)
    mine = [module for module, given in listed if given is data]
    mine = mine or [module for module, given in listed if _same_entries(given, data, keys)]
    mine = (outermost or _outermost)(mine)
    last = [n for n, one in enumerate(mine) if _writes(one, keys)]
    yield from mine[: last[-1] + 1] if last else mine


def _outermost(modules: list[nn.Module]) -> list[nn.Module]:
    """Those that are no part of another."""
    inner = {id(part) for one in modules for part in all_modules(one) if part is not one}
    return [one for one in dict.fromkeys(modules) if id(one) not in inner]


class RememberedOutermost:
    """Which of some modules are no part of another, found once for the same ones."""

    def __init__(self) -> None:
        # By the ids of modules these, which keep them, and the outermost.
        self._known: dict[tuple[int, ...], tuple[list[nn.Module], list[nn.Module]]] = {}

    def __call__(self, modules: list[nn.Module]) -> list[nn.Module]:
        key = tuple(map(id, modules))
        if key not in self._known:
            self._known[key] = modules, _outermost(modules)
        return self._known[key][1]


def _same_entries(given: TensorDictBase, data: TensorDictBase, keys: list[Any]) -> bool:
    """Whether a module that was given another tensordict left the entries of this one in it."""
    if given.batch_size != data.batch_size:
        return False
    pairs = [(given.get(key, None), data.get(key, None)) for key in keys]
    return all(
        isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and torch.equal(a, b)
        for a, b in pairs
    )


def writes_one(modules: list[nn.Module], keys: list[Any]) -> bool:
    """Whether one of the modules writes one of the entries, or may."""
    return any(_writes(one, keys) for one in modules)


def _writes(module: nn.Module, keys: list[Any]) -> bool:
    return any(key in keys for key in getattr(module, "out_keys", keys))


def one_after_the_other(modules: list[nn.Module]) -> nn.Module:
    """The modules as one."""
    if len(modules) == 1:
        return modules[0]
    whole = all(isinstance(one, TensorDictModuleBase) for one in modules)
    made: nn.Module = TensorDictSequential(*modules) if whole else nn.Sequential(*modules)
    return made
