"""TorchRL's Triton kernels under Triton's interpreter, on a machine without a GPU.

Triton chooses between compiler and interpreter when it is imported, so this runs in a process of
its own that sets ``TRITON_INTERPRET=1`` first. TorchRL's file is adapted from outside, in four
places; each is looked at before it is touched, and what does not look as it did is reported as
Moved. Where CUDA is there nothing is touched.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import torch

KERNELS = "torchrl.modules.tensordict_module._rnn_triton"
FUSED = ("_gru_fwd_kernel", "_gru_bwd_kernel", "_lstm_fwd_kernel", "_lstm_bwd_kernel")
TILED = ("_gru_fwd_step_tiled_h_kernel", "_lstm_fwd_step_tiled_h_kernel")
BLOCK_ROWS = 16  # rows of one program: TorchRL's own smallest choice below 256 hidden units
SMALLEST = 16  # hidden units: the kernels pad to this at least
TILE = {  # the tiled path as it is for large hidden sizes, on small ones
    "_FWD_TILED_H_MIN": SMALLEST,
    "_FWD_TILED_BLOCK_H": SMALLEST,
    "_FWD_TILED_BLOCK_K": SMALLEST,
}


class Moved(Exception):
    """TorchRL's or Triton's internals are not those that the adaptation was made for."""


def adapt() -> None:
    """Make TorchRL's Triton backend run on CPU tensors in this process.

    Raises Moved. Does nothing where CUDA is available.
    """
    if torch.cuda.is_available():
        return
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise Moved("TRITON_INTERPRET must be 1 before triton is imported")
    kernels = _module(KERNELS)
    _check_kernels(kernels)
    _interpret_tanh(kernels)
    _interpret_bfloat16_products()
    for name in FUSED:
        _leave_one_config(getattr(kernels, name))
    _allow_cpu_tensors(kernels)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Moved(f"{name} cannot be imported ({error})") from error


def _check_kernels(kernels: ModuleType) -> None:
    missing = [name for name in (*FUSED, *TILED, *TILE) if not hasattr(kernels, name)]
    if missing:
        raise Moved(f"TorchRL's {KERNELS.rpartition('.')[2]} has no {', '.join(missing)}")
    interpreted = _module("triton.runtime.interpreter").InterpretedFunction
    for name in (*FUSED, *TILED):
        kernel = getattr(kernels, name)
        if not isinstance(getattr(kernel, "fn", None) if name in FUSED else kernel, interpreted):
            raise Moved(f"{name} is not what Triton's interpreter makes of a kernel")


def _interpret_tanh(kernels: ModuleType) -> None:
    """libdevice is NVIDIA's; the interpreter has no stand-in for its tanh."""
    libdevice = getattr(kernels.tl.extra.cuda, "libdevice", None)
    if libdevice is None or not hasattr(libdevice, "tanh"):
        raise Moved("triton.language.extra.cuda.libdevice has no tanh")
    language, interpreter = kernels.tl, _module("triton.runtime.interpreter")

    def tanh(value: Any, _semantic: Any = None) -> Any:
        handle = interpreter.TensorHandle(np.tanh(value.handle.data), value.handle.dtype)
        return language.core.tensor(handle, value.type)

    libdevice.tanh = tanh


def _interpret_bfloat16_products() -> None:
    """The interpreter keeps bfloat16 as the bits of an integer and would multiply those."""
    interpreter = _module("triton.runtime.interpreter")
    language = _module("triton.language")
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    original: Callable[..., Any] | None = getattr(builder, "create_dot", None)
    if original is None:
        raise Moved("Triton's interpreter has no create_dot")

    def widened(part: Any) -> Any:
        if part.dtype.scalar is not language.bfloat16:
            return part
        bits = part.data.astype(np.uint32) << np.uint32(16)
        return handle(bits.view(np.float32), language.float32)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return original(self, widened(a), widened(b), *rest)

    builder.create_dot = create_dot


def _leave_one_config(kernel: Any) -> None:
    """Without a choice the autotuner asks for no GPU driver."""
    configs = getattr(kernel, "configs", None)
    if not configs or not hasattr(configs[0], "kwargs"):
        raise Moved("TorchRL's kernels are no longer autotuned by a list of configs")
    fitting = [
        config
        for config in configs
        if config.kwargs.get("BLOCK_B") == BLOCK_ROWS and config.kwargs.get("BLOCK_K") == SMALLEST
    ]
    if not fitting:
        raise Moved(f"no config of BLOCK_B={BLOCK_ROWS}, BLOCK_K={SMALLEST} is left")
    kernel.configs[:] = fitting[:1]
    kernel.early_config_prune = None


def _allow_cpu_tensors(kernels: ModuleType) -> None:
    """``torch.cuda.device(...)`` becomes a null context for CPU tensors, in TorchRL's file
    alone."""
    if getattr(kernels, "torch", None) is not torch:
        raise Moved("TorchRL's kernels no longer call torch by its name")
    kernels.torch = _Torch()  # type: ignore[attr-defined]


class _Cuda:
    """``torch.cuda`` whose ``device`` takes CPU tensors' devices."""

    def device(self, device: Any) -> contextlib.AbstractContextManager[Any]:
        on_cpu = isinstance(device, torch.device) and device.type == "cpu"
        return contextlib.nullcontext() if on_cpu else torch.cuda.device(device)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cuda, name)


class _Torch:
    """``torch`` with that ``cuda``."""

    cuda = _Cuda()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


@contextlib.contextmanager
def tiled(on: bool) -> Iterator[None]:
    """Run the tiled path, which TorchRL takes from 512 hidden units on, at any size."""
    kernels = importlib.import_module(KERNELS)
    before = {name: getattr(kernels, name) for name in TILE}
    try:
        for name, value in TILE.items() if on else ():
            setattr(kernels, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(kernels, name, value)
