"""Calling a function of the user's without a trace: what it can reach has its bits back afterwards.

Reached is what stands in its cells, defaults, arguments and globals, and what that holds: tensors
with their gradients, modules, optimisers, objects of the user's classes, lists, dicts, numbers.
What cannot be put back is refused while the function runs: ``CannotUndo`` says what it was.
"""

from __future__ import annotations

import builtins
import functools
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from tensordict.nn import TensorDictParams
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.utils._python_dispatch import _disable_current_modes
from torchrl.data import ReplayBuffer
from torchrl.envs import EnvBase

from rnncheck.errors import RnncheckError
from rnncheck.pipeline.copying.closures import (
    EMPTY,
    content,
    global_names,
    is_own_instance,
    is_users_function,
    is_users_type,
)
from rnncheck.pipeline.copying.handles import is_namespace
from rnncheck.pipeline.guard.user_frames import is_user_file

_ABSENT = object()
_LIBRARIES = ("torch", "tensordict", "torchrl")  # whose objects are looked into
_WRITES = frozenset("wax+")  # in the mode of ``open``


class CannotUndo(RnncheckError):
    """The function did what cannot be undone; the message says what."""


class Restored:
    """While the context is open, functions may run; at its end all that ``holders`` reach, and the
    random numbers, are as they were."""

    def __init__(self, *holders: Any) -> None:
        self._holders = holders
        self._undo: list[Callable[[], None]] = []
        self._seen: dict[int, Any] = {}
        self._open = ExitStack()

    def __enter__(self) -> Restored:
        with _disable_current_modes():  # one that computes in float64 would give copies in that
            self._note_all()
        _refuse(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        with _disable_current_modes():
            for undo in self._undo:
                undo()
        self._open.close()

    def _note_all(self) -> None:
        self._undo.append(_random_numbers())
        waiting = deque(self._holders)
        while waiting:
            value = waiting.popleft()
            # By its type: TorchRL's classes ask instances for names, which a user's may refuse.
            if id(value) not in self._seen and not issubclass(type(value), _LEFT_ALONE):
                self._seen[id(value)] = value
                waiting.extend(self._watched(value))

    def _watched(self, value: Any) -> Iterator[Any]:
        """Note how ``value`` is put back, and give what it holds."""
        for kind, watch in _KINDS:
            if isinstance(value, kind):
                yield from watch(self, value)
                return
        if is_own_instance(value) or type(value).__module__.partition(".")[0] in _LIBRARIES:
            yield from self.attributes(value)
            yield type(value)

    def undone_by(self, undo: Callable[[], None]) -> None:
        """Run ``undo`` at the end."""
        self._undo.append(undo)

    def keep_version(self, tensor: Tensor) -> None:
        """What was computed with the tensor may still be asked for its gradient afterwards."""
        with suppress(RuntimeError):  # a tensor of inference mode has no version
            self._open.enter_context(_unsafe_preserve_version_counter(tensor))

    def attributes(self, value: Any) -> Iterator[Any]:
        """The instance's own attributes."""
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            yield from _mapping(self, held)
        for name in _slots(value):
            before = getattr(value, name, _ABSENT)
            self.undone_by(functools.partial(_put_attribute, value, name, before))
            yield before


def _put_attribute(value: Any, name: str, before: Any) -> None:
    if getattr(value, name, _ABSENT) is before:
        return
    if before is _ABSENT:
        delattr(value, name)
    else:
        setattr(value, name, before)


def _slots(value: Any) -> list[str]:
    declared = (vars(one).get("__slots__", ()) for one in type(value).__mro__)
    names = [name for one in declared for name in ([one] if isinstance(one, str) else one)]
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _tensor(restored: Restored, value: Tensor) -> Iterator[Any]:
    if value.is_meta or isinstance(value, TensorDictBase):
        return
    data, grad, wanted = value.data, value.grad if value.is_leaf else None, value.requires_grad
    bits = data.clone()
    restored.keep_version(value)

    def undo() -> None:
        if value.data.data_ptr() != data.data_ptr() or value.shape != data.shape:
            value.data = data
        if not torch.equal(data, bits):
            data.copy_(bits)
        if value.is_leaf:
            value.requires_grad_(wanted)
            value.grad = grad

    restored.undone_by(undo)
    yield grad


def _tensordict(restored: Restored, value: TensorDictBase) -> Iterator[Any]:
    if isinstance(value, TensorDictParams):
        yield from restored.attributes(value)
    if isinstance(value, LazyStackedTensorDict):
        yield from value.tensordicts
        return
    held = dict(value.items(include_nested=True, leaves_only=True))

    def undo() -> None:
        now = dict(value.items(include_nested=True, leaves_only=True))
        if now.keys() == held.keys() and all(now[key] is held[key] for key in held):
            return
        with value.unlock_():
            for key in now.keys() - held.keys():
                value.del_(key) if isinstance(key, str) else value.exclude(key, inplace=True)
            for key, old in held.items():
                if now.get(key) is not old:
                    value.set(key, old)

    if not isinstance(value, TensorDictParams):
        restored.undone_by(undo)
    yield from held.values()


def _mapping(restored: Restored, value: MutableMapping[Any, Any]) -> Iterator[Any]:
    if is_namespace(value):
        return
    before = dict(value)

    def undo() -> None:
        if not _same(list(value.items()), list(before.items())):
            value.clear()
            value.update(before)

    restored.undone_by(undo)
    yield from before.values()


def _same(now: list[tuple[Any, Any]], before: list[tuple[Any, Any]]) -> bool:
    """The same objects under the same keys, in the same order."""
    return len(now) == len(before) and all(
        one is other and mine is theirs
        for (one, mine), (other, theirs) in zip(now, before, strict=True)
    )


def _sequence(restored: Restored, value: Any) -> Iterator[Any]:
    before = list(value)

    def undo() -> None:
        value.clear()
        value.extend(before)

    restored.undone_by(undo)
    yield from before


def _set(restored: Restored, value: set[Any]) -> Iterator[Any]:
    before = set(value)

    def undo() -> None:
        value.clear()
        value.update(before)

    restored.undone_by(undo)
    yield from before


def _frozen(restored: Restored, value: Any) -> Iterator[Any]:
    yield from value


def _array(restored: Restored, value: np.ndarray[Any, Any]) -> Iterator[Any]:
    before = value.copy()
    if value.flags.writeable:
        restored.undone_by(lambda: np.copyto(value, before))
    yield from ()


def _function(restored: Restored, value: types.FunctionType) -> Iterator[Any]:
    """Its cells, its defaults, and the globals that it names, itself or by other functions."""
    yield from (value.__defaults__ or (), value.__kwdefaults__ or {}, value.__dict__)
    for cell in value.__closure__ or ():
        yield from _cell(restored, cell)
    names = global_names(value) if is_users_function(value) else set()
    for name in names:
        held = value.__globals__.get(name)
        yield from _named(restored, value.__globals__, name)
        if isinstance(held, types.ModuleType) and is_user_file(getattr(held, "__file__", "") or ""):
            for inner in names & vars(held).keys():
                yield from _named(restored, vars(held), inner)


def _cell(restored: Restored, cell: types.CellType) -> Iterator[Any]:
    before = content(cell)

    def undo() -> None:
        if before is EMPTY:
            if content(cell) is not EMPTY:
                del cell.cell_contents
        elif content(cell) is not before:
            cell.cell_contents = before

    restored.undone_by(undo)
    yield from () if before is EMPTY else (before,)


def _named(restored: Restored, names: dict[str, Any], name: str) -> Iterator[Any]:
    before = names.get(name, _ABSENT)

    def undo() -> None:
        if before is _ABSENT:
            names.pop(name, None)
        elif names.get(name, _ABSENT) is not before:
            names[name] = before

    restored.undone_by(undo)
    if before is not _ABSENT:
        yield before


def _method(restored: Restored, value: types.MethodType) -> Iterator[Any]:
    yield from (value.__self__, value.__func__)


def _partial(restored: Restored, value: functools.partial[Any]) -> Iterator[Any]:
    yield from (value.func, value.args, value.keywords)


def _class(restored: Restored, value: type) -> Iterator[Any]:
    """What a class of the user's keeps for all its instances; its functions reach further."""
    if not is_users_type(value):
        return
    for name, held in list(vars(value).items()):
        plain = isinstance(held, (classmethod, staticmethod))
        yield held.__func__ if plain else held
        if not name.startswith("__"):
            restored.undone_by(functools.partial(_put_class_attribute, value, name, held))


def _put_class_attribute(owner: type, name: str, before: Any) -> None:
    if vars(owner).get(name, _ABSENT) is not before:
        setattr(owner, name, before)


def _module(restored: Restored, value: nn.Module) -> Iterator[Any]:
    yield from restored.attributes(value)
    yield type(value)


def _generator(restored: Restored, value: torch.Generator) -> Iterator[Any]:
    state = value.get_state()
    restored.undone_by(lambda: _drop(value.set_state(state)))
    yield from ()


def _numpy_generator(restored: Restored, value: np.random.Generator) -> Iterator[Any]:
    state = value.bit_generator.state
    restored.undone_by(lambda: setattr(value.bit_generator, "state", state))
    yield from ()


def _numpy_state(restored: Restored, value: np.random.RandomState) -> Iterator[Any]:
    state = value.get_state()
    restored.undone_by(lambda: value.set_state(state))
    yield from ()


def _python_random(restored: Restored, value: random.Random) -> Iterator[Any]:
    state = value.getstate()
    restored.undone_by(lambda: value.setstate(state))
    yield from ()


def _drop(_: object) -> None:
    """A lambda that gives nothing."""


_LEFT_ALONE = (
    type(None), bool, int, float, complex, str, bytes, types.ModuleType, types.CodeType,
    types.BuiltinFunctionType, torch.dtype, torch.device, EnvBase, ReplayBuffer,
)  # fmt: skip
_KINDS: tuple[tuple[Any, Callable[[Restored, Any], Iterator[Any]]], ...] = (
    (TensorDictBase, _tensordict),
    (Tensor, _tensor),
    (type, _class),
    (nn.Module, _module),
    (MutableMapping, _mapping),
    ((list, deque, bytearray), _sequence),
    (set, _set),
    ((tuple, frozenset), _frozen),
    (np.ndarray, _array),
    (types.FunctionType, _function),
    (types.MethodType, _method),
    (functools.partial, _partial),
    (torch.Generator, _generator),
    (np.random.Generator, _numpy_generator),
    (np.random.RandomState, _numpy_state),
    (random.Random, _python_random),
)


def _random_numbers() -> Callable[[], None]:
    """Puts the processes' own random numbers back: Python's, NumPy's, torch's."""
    python, numpy, torchs = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def undo() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(torchs)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)

    return undo


def _refuse(stack: ExitStack) -> None:
    """Until the stack is closed, what cannot be undone raises."""
    for owner, name, what in (
        (EnvBase, "step", "steps an env"),
        (EnvBase, "reset", "resets an env"),
        (ReplayBuffer, "extend", "writes into a replay buffer"),
        (ReplayBuffer, "add", "writes into a replay buffer"),
    ):
        for one in _with_own(owner, name):
            _replace(stack, one, name, _refusing(what))
    _replace(stack, torch, "save", _refusing("saves a file"))
    for name in ("update_priority", "update_tensordict_priority"):
        for one in _with_own(ReplayBuffer, name):
            _replace(stack, one, name, _held_back)
    original = builtins.open

    def reading(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if _WRITES & set(mode) and is_user_file(sys._getframe(1).f_code.co_filename):
            _refusing(f"opens {file} to write")()
        return original(file, mode, *args, **kwargs)

    _replace(stack, builtins, "open", reading)


def _with_own(kind: type, name: str) -> Iterator[type]:
    """The class and those made from it that have such a method of their own."""
    if name in vars(kind):
        yield kind
    made: list[type] = type.__subclasses__(kind)
    for one in made:
        yield from _with_own(one, name)


def _replace(stack: ExitStack, owner: Any, name: str, instead: Any) -> None:
    own = vars(owner).get(name, _ABSENT)
    setattr(owner, name, instead)
    if own is _ABSENT:
        stack.callback(delattr, owner, name)
    else:
        stack.callback(setattr, owner, name, own)


def _refusing(what: str) -> Callable[..., None]:
    def refused(*_: Any, **__: Any) -> None:
        raise CannotUndo(f"the function {what}, which cannot be undone when it is called again")

    return refused


def _held_back(*_: Any, **__: Any) -> None:
    """Priorities of a buffer matter to its next sample alone."""
