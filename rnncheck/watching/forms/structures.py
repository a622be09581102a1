"""What containers and objects of a script are made of, and others like them with other parts."""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, FunctionType, MethodType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor, nn
from torch.distributions import Distribution
from torch.optim import Optimizer

from rnncheck.pipeline.copying.closures import (
    EMPTY,
    content,
    global_names,
    is_own_instance,
    is_users_function,
)
from rnncheck.watching.forms.log_probs import drawn_by

Path = tuple[str, ...]
Members = Callable[[Any], dict[str, Any]]
_REDUCERS = ("__reduce_ex__", "__reduce__")
_SELF = "__self__"
_CALLED = "()"
_MODULES = (nn.Module, Optimizer, gymnasium.Env, gymnasium.vector.VectorEnv)
# Types of what most variables hold, told at once: they have no parts.
LEAVES = frozenset({Tensor, nn.Parameter, np.ndarray, bool, int, float, str, type(None)})
_DEEPEST = 6  # list in buffer in agent in a function's globals: what people write has four


def records(value: Any) -> dict[str, Any]:
    """The parts of a mapping, a tuple, a list or a record; none of anything else."""
    if type(value) in LEAVES:
        return {}
    if isinstance(value, Mapping):
        return {str(name): one for name, one in value.items()}
    if isinstance(value, (tuple, list, deque)):
        return dict(zip(_names_in(value), value, strict=True))
    if isinstance(value, Distribution):
        return drawn_by(value)
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if is_record or isinstance(value, SimpleNamespace):
        return dict(vars(value)) if hasattr(value, "__dict__") else {}
    return {}


def _names_in(value: Any) -> Iterable[str]:
    """The parts of a named tuple have names; others are numbered."""
    return getattr(value, "_fields", None) or map(str, range(len(value)))


def holdings(value: Any) -> dict[str, Any]:
    """The same, and what objects of the user's classes, their methods, and functions of the user's
    hold or read by name."""
    if type(value) in LEAVES:
        return {}
    if isinstance(value, MethodType):
        return {_SELF: value.__self__} if holdings(value.__self__) else {}
    if isinstance(value, FunctionType):
        return _read_by(value) if is_users_function(value) else {}
    if isinstance(value, nn.Module):
        own = is_own_instance(value)
        kept = {name: one for name, one in vars(value).items() if name[0] != "_"}
        return kept | _methods(type(value)) if own else {}
    if isinstance(value, (*_MODULES, Tensor)):
        return {}
    found = records(value)
    if not found and is_own_instance(value):
        found = dict(getattr(value, "__dict__", {})) | _methods(type(value))
    return found


def _methods(kind: type) -> dict[str, FunctionType]:
    """Methods of the user's that read anything by name, as ``name()``."""
    found = dict[str, FunctionType]()
    for name, one in vars(kind).items():
        named = isinstance(one, FunctionType) and not name.startswith("__")
        if named and is_users_function(one) and _read_by(one):
            found[name + _CALLED] = one
    return found


def _read_by(function: FunctionType) -> dict[str, Any]:
    names = global_names(function) & function.__globals__.keys()
    read = {name: function.__globals__[name] for name in names}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    read |= {name: content(cell) for name, cell in cells}
    return read | (function.__kwdefaults__ or {})


def rebuilt(value: Any, parts: Mapping[str, Any]) -> Any:
    """One like ``value``, in which the parts that are named are these."""
    if isinstance(value, MethodType):
        return MethodType(value.__func__, parts[_SELF])
    if isinstance(value, FunctionType):
        return _with_names(value, parts)
    if isinstance(value, TensorDictBase):
        return _tensordict_like(value, parts)
    if isinstance(value, Mapping):
        return mapping_like(value, {n: parts.get(str(n), one) for n, one in value.items()})
    if isinstance(value, (tuple, list, deque)):
        names = _names_in(value)
        return sequence_like(value, [parts.get(n, o) for n, o in zip(names, value, strict=True)])
    made = shallow_copy(value)
    for name, one in parts.items():
        bound = MethodType(one, made) if name.endswith(_CALLED) else one
        # Not by the object's own setter: that of a frozen dataclass refuses.
        object.__setattr__(made, name.removesuffix(_CALLED), bound)
    return made


def shallow_copy(value: Any) -> Any:
    """``copy.copy``, which asks the new object for methods before it has anything: one that looks
    for what it lacks in what it holds, as wrappers of envs do, would look for ever."""
    kind = type(value)
    own = any(hasattr(kind, name) for name in ("__copy__", "__setstate__"))
    usual = all(getattr(kind, one) is getattr(object, one) for one in _REDUCERS)
    if own or not usual or not hasattr(kind, "__getattr__") or not hasattr(value, "__dict__"):
        return copy.copy(value)
    made = object.__new__(kind)
    vars(made).update(vars(value))
    return made


def _tensordict_like(value: TensorDictBase, parts: Mapping[str, Any]) -> TensorDict:
    """With as many batch dimensions, of what sizes the parts have. Of the other entries those
    follow that are alike in all rows, or have as many."""
    dims = value.batch_dims
    sizes = [one.shape[:dims] for one in parts.values() if hasattr(one, "shape")]
    lead = sizes[0] if sizes else value.batch_size
    others = {n: _in_rows(one, dims, lead) for n, one in value.items() if str(n) not in parts}
    made = {n: one for n, one in others.items() if one is not None}
    made |= {n: parts[str(n)] for n, _ in value.items() if str(n) in parts}
    return TensorDict(made, batch_size=lead)


def _in_rows(value: Any, dims: int, lead: Size) -> Any:
    """An entry for rows ``lead``; None where it differs from row to row, and has others."""
    if value.shape[:dims] == lead:
        return value
    rows = value.reshape(-1, *value.shape[dims:])
    alike = isinstance(value, Tensor) and bool((rows == rows[:1]).all())
    return rows[0].expand(*lead, *rows.shape[1:]).clone() if alike else None


def mapping_like(value: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """The parts as a dict of the same class, as which they may be read by other means."""
    kind = type(value)
    if kind is dict or not isinstance(value, dict):
        return parts
    made = kind.__new__(kind)
    vars(made).update(vars(value)) if hasattr(value, "__dict__") else None
    if isinstance(made, defaultdict):
        made.default_factory = getattr(value, "default_factory", None)
    dict.update(made, parts)  # not by its own setter
    return made


def sequence_like(value: Any, parts: list[Any]) -> Any:
    """The parts as a tuple, a list or a deque, as ``value`` is one."""
    if isinstance(value, deque):
        return deque(parts, value.maxlen)
    if hasattr(value, "_fields"):
        return type(value)(*parts)
    return type(value)(parts)


def _with_names(function: FunctionType, parts: Mapping[str, Any]) -> FunctionType:
    """The function reads ``parts`` where it reads these names."""
    code, given = function.__code__, function.__kwdefaults__ or {}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closure = tuple(CellType(parts[name]) if name in parts else cell for name, cell in cells)
    seen = {**function.__globals__, **parts}
    made = FunctionType(code, seen, function.__name__, function.__defaults__, closure)
    kept = {name: parts.get(name, one) for name, one in given.items()}
    made.__kwdefaults__ = kept or None
    return made


def leaves_in(
    value: Any, parts_of: Members = records, path: Path = ()
) -> Iterator[tuple[Path, Any]]:
    """What has no parts, with the way there."""
    if type(value) in LEAVES:
        yield path, value
        return
    parts = parts_of(value)
    if not parts and not isinstance(value, (Mapping, tuple, list, deque)):
        yield path, value
    for name, one in parts.items():
        yield from leaves_in(one, parts_of, (*path, name))


def filled(template: Any, values: Mapping[Path, Any], parts_of: Members = records) -> Any:
    """``template`` with other parts where ``values`` has some, which lie where it has its own."""
    if () in values:
        return lying_like(values[()], template)
    inner = dict[str, dict[Path, Any]]()
    for path, value in values.items():
        inner.setdefault(path[0], {})[path[1:]] = value
    if not inner:
        return template
    parts = parts_of(template)
    new = {name: filled(parts[name], own, parts_of) for name, own in inner.items() if name in parts}
    return rebuilt(template, new) if new else template


def lying_like(value: Any, like: Any) -> Any:
    """``value`` with its tensors on the accelerator that those of ``like`` are on, if they are."""
    tensors = (one for _, one in leaves_in(like) if isinstance(one, Tensor))
    first = next(tensors, None)
    if first is None or first.is_cpu:
        return value
    device = first.device
    return with_tensors(value, lambda one: one.to(device))


def with_tensors(value: Any, made: Callable[[Tensor], Tensor]) -> Any:
    """``value`` with what is ``made`` of its tensors in their place."""
    if isinstance(value, Tensor):
        return made(value)
    parts = records(value)
    new = {name: with_tensors(one, made) for name, one in parts.items()}
    return rebuilt(value, new) if new else value


def walked(value: Any, looks: Callable[[Path, Any], bool], path: Path = ()) -> None:
    """Show ``looks`` everything that can be reached, each object once, with the way there; where it
    says so what is inside is not walked."""
    _walked(value, looks, path, set())


def _walked(value: Any, looks: Callable[[Path, Any], bool], path: Path, seen: set[int]) -> None:
    if value is EMPTY or len(path) > _DEEPEST or looks(path, value):
        return
    parts = holdings(value)
    if parts and id(value) not in seen:
        seen.add(id(value))
        for name, one in parts.items():
            _walked(one, looks, (*path, name), seen)
