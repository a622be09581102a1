"""The networks that a callable of the user's holds: as a module, in its cells, under global
names."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor, nn
from torchrl.envs import EnvBase

from rnncheck.pipeline.copying.closures import content, is_own_instance, state_names

# What long lists hold, told at once: no network is in it.
_LEAVES = frozenset({Tensor, np.ndarray, bool, int, float, str, type(None)})
_DEEPEST = 6  # function in partial in object in function: what people write has three


def trained_parameters(holder: Any) -> dict[str, nn.Parameter]:
    """The parameters that are trained, each once, under the name of where they are."""
    found: dict[int, tuple[str, nn.Parameter]] = {}
    for name, module in held_modules(holder):
        for path, parameter in module.named_parameters(prefix=name):
            if parameter.requires_grad and not parameter.is_meta:  # of a template
                found.setdefault(id(parameter), (path, parameter))
    return dict(found.values())


def held_modules(holder: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, nn.Module]]:
    """The outermost modules that a call of ``holder`` can reach, by where they are."""
    if type(holder) in _LEAVES or isinstance(holder, EnvBase) or depth > _DEEPEST:
        return
    if isinstance(holder, nn.Module):
        yield name, holder
        return
    for key, part in _parts(holder):
        yield from held_modules(part, f"{name}.{key}" if name else key, depth + 1)


def _parts(holder: Any) -> Iterator[tuple[str, Any]]:
    """What a call of ``holder`` can reach, by name."""
    if isinstance(holder, types.FunctionType):
        cells = zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=True)
        yield from ((name, content(cell)) for name, cell in cells)
        yield from _numbered(holder.__defaults__ or ())
        yield from (holder.__kwdefaults__ or {}).items()
        yield from ((name, holder.__globals__[name]) for name in sorted(state_names(holder)))
    elif isinstance(holder, types.MethodType):
        yield from (("self", holder.__self__), ("function", holder.__func__))
    elif isinstance(holder, functools.partial):
        yield from (("function", holder.func), *_numbered(holder.args), *holder.keywords.items())
    elif isinstance(holder, (list, tuple)):
        yield from _numbered(holder)
    elif isinstance(holder, dict):
        yield from ((str(key), item) for key, item in holder.items())
    elif hasattr(type(holder), "held_parts"):  # an instance of the user's may answer to any name
        yield from holder.held_parts()
    elif (callable(holder) or is_own_instance(holder)) and not isinstance(holder, type):
        yield from getattr(holder, "__dict__", {}).items()


def _numbered(items: Any) -> Iterator[tuple[str, Any]]:
    return ((str(number), item) for number, item in enumerate(items))
