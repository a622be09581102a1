"""A device beside the CPU on a machine without one, called ``npu:0``, for what must run on CUDA.

Its memory is the host's and its kernels are the CPU's, but it is as strict as CUDA: tensors of two
devices are an error, and numpy reads none of its memory. It is one name for a process: load it in
one of its own.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import torch
from torchrl.envs.batched_envs import BatchedEnvBase

SOURCE = Path(__file__).with_name("pretend.cpp")
COMPILER = shutil.which("c++") or shutil.which("g++")
NAME = "npu"  # one that TorchRL's collectors know


def build(folder: Path) -> Path:
    """The library, compiled for the torch that is installed."""
    home, made = Path(torch.__file__).parent, folder / "libpretend.so"
    include, libraries = home / "include", home / "lib"
    subprocess.run(
        [
            str(COMPILER), "-O1", "-std=c++20", "-shared", "-fPIC", str(SOURCE), "-o", str(made),
            f"-I{include}", f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}",
            f"-L{libraries}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{libraries}",
        ],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return made


def load(library: Path) -> None:
    """Make it this process's accelerator."""
    torch.ops.load_library(str(library))
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _module())
    # TorchRL's batched envs know how to wait for three kinds of device; this one is never behind.
    BatchedEnvBase._find_sync_values = lambda _: (_nothing, _nothing)  # type: ignore[method-assign]


def _nothing(*_: object) -> None:
    pass


def _module() -> ModuleType:
    """What ``torch.npu`` has to answer; its random numbers are its own."""
    made = ModuleType(f"torch.{NAME}")
    answers = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_in_bad_fork": lambda: False,
        "manual_seed": lambda number: torch.ops.pretend.seed(number % 2**63),
        "manual_seed_all": lambda number: torch.ops.pretend.seed(number % 2**63),
        "synchronize": _nothing,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_amp_supported_dtype": lambda: [torch.bfloat16, torch.float16],
        "get_rng_state": lambda *_: torch.ops.pretend.state(),
        "set_rng_state": lambda state, *_: torch.ops.pretend.put_back(state),
    }
    for name, answer in answers.items():
        setattr(made, name, answer)
    return made
