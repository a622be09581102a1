"""Running statistics that a module counts as it runs, such as the means of what it was shown: held
still while it is judged, since a step that is asked twice would count twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Buffers = frozenset[tuple[type, str]]  # of modules of this class, under this name
_ALIKE = 1e-4  # relative: sums in another order round otherwise
_WRITES = frozenset(
    {"__setitem__", *(f"__i{one}__" for one in ("add", "sub", "mul", "div", "truediv", "pow"))}
)
_held: list[Buffers] = []  # by all that judge


@contextmanager
def statistics_held(found: Buffers) -> Iterator[None]:
    """Inside, ``counting_nothing`` knows them."""
    _held.append(found)
    try:
        yield
    finally:
        _held.remove(found)


def row_free(before: Mapping[str, Tensor], runs: Sequence[Mapping[str, Tensor]]) -> frozenset[str]:
    """Names of buffers that every run moved, and in which no row has a place: they keep their shape
    and come out alike, whatever the order of the rows, which a hidden state does not."""
    return frozenset(
        name
        for name, was in before.items()
        if all(name in run and run[name].shape == was.shape for run in runs)
        and all(not torch.equal(run[name], was) for run in runs)
        and all(_close(run[name], runs[0][name]) for run in runs[1:])
    )


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one.double(), other.double(), _ALIKE, _ALIKE)


def owners(module: nn.Module, names: frozenset[str]) -> Buffers:
    """The classes that hold buffers of these paths."""
    found = set[tuple[type, str]]()
    for path in names:
        where, _, name = path.rpartition(".")
        found.add((type(module.get_submodule(where)), name))
    return frozenset(found)


@contextmanager
def counting_nothing() -> Iterator[None]:
    """Inside, statistics that are held stay what they are, whatever their modules write to them."""
    found = frozenset[tuple[type, str]]().union(*_held)
    if not found:
        yield
        return
    running = _Running(found)
    with running.noticing(), _Unwritten(running), _Uncalled(running):
        yield


class _Running:
    """The modules that are running, and where their held buffers lie."""

    def __init__(self, held: Buffers) -> None:
        self._names = {kind: {n for k, n in held if k is kind} for kind, _ in held}
        self._places: list[list[tuple[int, int]]] = []  # of memory, by the modules that run

    def holds(self, one: object) -> bool:
        """Whether it lies in one of them."""
        if not isinstance(one, Tensor) or not any(self._places):
            return False
        try:
            place = one.data_ptr()
        except RuntimeError:  # one that stands for others, as inside of vmap
            return False
        return any(begin <= place < end for places in self._places for begin, end in places)

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Know which modules run."""
        handles = [
            hooks.register_module_forward_pre_hook(self._before),
            hooks.register_module_forward_hook(self._behind, always_call=True),
            hooks.register_module_buffer_registration_hook(cast(Any, self._assigned)),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _before(self, module: nn.Module, _given: object) -> None:
        parts = [module] if self._places else module.modules()
        self._places.append([place for part in parts for place in self._of(part)])

    def _of(self, part: nn.Module) -> Iterator[tuple[int, int]]:
        for name in self._names.get(type(part), ()):
            one = part._buffers.get(name)
            if one is not None and one.numel():
                begin = one.data_ptr()
                yield begin, begin + one.numel() * one.element_size()

    def _behind(self, *_: object) -> None:
        if self._places:
            self._places.pop()

    def _assigned(self, module: nn.Module, name: str, _value: object) -> Tensor | None:
        known = self._places and name in self._names.get(type(module), ())
        return module._buffers.get(name) if known else None


class _Uncalled(TorchFunctionMode):
    """Leaves out calls that write into held buffers: autograd does not hear of them, which would
    count what it saved as written over."""

    def __init__(self, running: _Running) -> None:
        super().__init__()
        self._running = running

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        own = name.endswith("_") and not name.endswith("__")
        if args and (own or name in _WRITES) and self._running.holds(args[0]):
            return None if name == "__setitem__" else args[0]
        if self._running.holds(out := (kwargs or {}).get("out")):
            return out
        return func(*args, **(kwargs or {}))


class _Unwritten(TorchDispatchMode):
    """Leaves out what else is written into them."""

    def __init__(self, running: _Running) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._running = running

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for number, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            given = args[number] if number < len(args) else (kwargs or {}).get(argument.name)
            if self._running.holds(given):
                return given
        return func(*args, **(kwargs or {}))
