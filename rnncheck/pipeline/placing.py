"""Where tensors lie: what is judged on the CPU, what runs gets it on its own device; and the random
numbers and the precision of an accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from rnncheck.pipeline.keys import tensor_items

_CPU = torch.device("cpu")
Placed = TypeVar("Placed", Tensor, TensorDictBase)


def device_of(module: Any) -> torch.device | None:
    """Where a module's parameters and buffers lie, by the first of them that has
    values; None without any."""
    held: Iterator[Tensor] = (
        chain(module.parameters(), module.buffers()) if isinstance(module, nn.Module) else iter(())
    )
    first = next((one for one in held if not one.is_meta), None)
    return None if first is None else first.device


def place_of(td: TensorDictBase) -> torch.device | None:
    """Where the entries of ``td`` lie: the accelerator, if one of them does; None without any."""
    found = {value.device for _, value in tensor_items(td)}
    return next((one for one in found if one != _CPU), _CPU) if found else None


def placed(value: Placed, device: torch.device | None) -> Placed:
    """``value`` on ``device``, as it is where it lies there; None leaves it where it is."""
    if device is None:
        return value
    if isinstance(value, Tensor):
        moved: Tensor = value.to(device)
        return moved
    elsewhere = any(one.device != device for _, one in tensor_items(value))
    there: TensorDictBase = value.to(device) if elsewhere else value
    return there


def module_on(module: nn.Module, device: torch.device) -> nn.Module:
    """``module``, moved where some of it lies elsewhere: templates on the meta device have no
    values that could be."""
    tensors = (*module.parameters(), *module.buffers())
    elsewhere = any(one.device != device and not one.is_meta for one in tensors)
    return module.to(device) if elsewhere else module


def on_cpu(value: Placed) -> Placed:
    """``value`` on the CPU, as it is where it lies there; gradients flow back to where it lay."""
    moved: Placed = placed(value, _CPU)
    return moved


@contextmanager
def forked_rng() -> Iterator[None]:
    """Random numbers as they were behind the context: the CPU's and the current accelerator's."""
    states = random_states()
    try:
        yield
    finally:
        set_random_states(states)


def random_states() -> tuple[Tensor, ...]:
    """The states of the CPU's generator and of the current accelerator's, where there is one."""
    kind = accelerator()
    own = torch.get_rng_state()
    return (own,) if kind is None else (own, torch.get_device_module(kind).get_rng_state())


def set_random_states(states: tuple[Tensor, ...]) -> None:
    """Put back what ``random_states`` gave."""
    torch.set_rng_state(states[0])
    kind = accelerator()
    if kind is not None and len(states) > 1:
        torch.get_device_module(kind).set_rng_state(states[1])


@cache
def accelerator() -> str | None:
    """The type of accelerator that this machine has; None without one."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return None if found is None else found.type


_AS_SET: ContextVar[bool] = ContextVar("precision as set", default=False)


@contextmanager
def precision_as_set() -> Iterator[None]:
    """Inside, float32 products are computed as torch is set, by the user or by default."""
    token = _AS_SET.set(True)
    try:
        yield
    finally:
        _AS_SET.reset(token)


@contextmanager
def full_precision() -> Iterator[None]:
    """Inside, an accelerator's float32 products are not rounded to tf32."""
    kept = None if _AS_SET.get() or accelerator() is None else tf32_allowed()
    if kept is None or not any(kept):
        yield
        return
    _allow_tf32((False, False))
    try:
        yield
    finally:
        _allow_tf32(kept)


def tf32_allowed() -> tuple[bool, bool] | None:
    """Whether cuDNN and cuBLAS may round float32 to tf32; None where torch cannot say, since its
    old and its new flags were both used."""
    try:
        return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:
        return None


def _allow_tf32(flags: tuple[bool, bool]) -> None:
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = flags
