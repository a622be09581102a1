"""Which combinations of module, variant and device can run here, and why not: the one place that
knows.

The reasons are TorchRL's own limits as they are written in its modules (0.12 to 0.14), and what
this machine lacks.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Literal

import torch

from rnncheck.numerics.kernels import NARROW_DTYPES, LayerTrial, cannot_run
from rnncheck.pipeline.backends.facts import Facts, knows_backends, torch_dtype
from rnncheck.results.variant import Variant

Vmap = Literal["none", "data", "parameters"]
SCAN_NEEDS_TORCH = (2, 6)
TRITON_NEEDS = (2, 2)  # TorchRL's own minimum
INTERPRETER = ((3, 9), (4, 0))  # Triton's interpreter was adapted for these, from and below
NUMPY_FOR_OLD_TRITON = (2, 4)  # Triton before 3.9 interprets with a numpy below this


class Ability(StrEnum):
    """Whether a combination can run."""

    RUNS = "runs"
    INTERPRETED = "interpreted"  # Triton's kernels, on the CPU, under Triton's interpreter
    CANNOT = "cannot"


@dataclass(frozen=True)
class BackendVerdict:
    """Whether a combination can run here; ``reason`` says why not, or what of it has no effect."""

    ability: Ability
    reason: str = ""

    @property
    def runs(self) -> bool:
        """It gives numbers, from real or interpreted kernels."""
        return self.ability is not Ability.CANNOT


@dataclass(frozen=True)
class Machine:
    """What this process finds installed; versions are empty where a package is missing."""

    cuda: bool
    torch: str
    hoptorch: str
    triton: str
    numpy: str
    compiler: bool  # a C++ compiler, which torch.compile needs on the CPU
    settings: bool = True  # TorchRL's modules know recurrent_backend
    missing: Callable[[LayerTrial], str] = cannot_run  # why its processor cannot run a layer


@cache
def this_machine() -> Machine:
    """What is installed here."""
    return Machine(
        cuda=torch.cuda.is_available(),
        torch=torch.__version__,
        hoptorch=_version("hoptorch"),
        triton=_version("triton"),
        numpy=_version("numpy"),
        compiler=any(shutil.which(name) for name in ("c++", "g++", "clang++")),
        settings=knows_backends(),
    )


def _version(name: str) -> str:
    if importlib.util.find_spec(name) is None:
        return ""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "0"


def version_numbers(version: str) -> tuple[int, ...]:
    """``(2, 13)`` of ``2.13.0+cpu``."""
    parts = version.split("+")[0].split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)


@dataclass(frozen=True)
class _Question:
    """One question to the matrix."""

    facts: Facts
    variant: Variant
    device: str
    vmap: Vmap
    machine: Machine

    @property
    def name(self) -> str:
        return "LSTM" if self.facts.kind == "lstm" else "GRU"

    @property
    def on_cuda(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def falls_back(self) -> bool:
        """TorchRL's triton backend hands these to the pad backend."""
        return self.variant.backend == "triton" and bool(
            self.facts.proj_size or self.facts.bidirectional
        )

    @property
    def scans(self) -> bool:
        """The scan backend runs, asked for or chosen by ``auto`` under torch.compile."""
        compiled = self.variant.compile != "eager"
        return self.variant.backend == "scan" or (self.variant.backend == "auto" and compiled)


def backend_verdict(
    facts: Facts,
    variant: Variant,
    device: str = "cpu",
    *,
    vmap: Vmap = "none",
    machine: Machine | None = None,
) -> BackendVerdict:
    """Whether ``variant`` of a module with ``facts`` runs on ``device`` (``cpu`` or
    ``cuda...``)."""
    asked = _Question(facts, variant, device, vmap, machine or this_machine())
    for obstacle in OBSTACLES:
        reason = obstacle(asked)
        if reason:
            return BackendVerdict(Ability.CANNOT, reason)
    without_effect = "; ".join(_without_effect(asked))
    if variant.backend == "triton" and not asked.on_cuda and not asked.falls_back:
        said = "Triton's interpreter: the kernels' logic, multiplied in float32"
        return BackendVerdict(Ability.INTERPRETED, "; ".join(filter(None, [said, without_effect])))
    return BackendVerdict(Ability.RUNS, without_effect)


def _device(asked: _Question) -> str:
    return "no CUDA device here" if asked.on_cuda and not asked.machine.cuda else ""


def _old_torchrl(asked: _Question) -> str:
    plain = asked.variant.backend == "pad" and asked.variant.recompute == "none"
    if asked.machine.settings or plain:
        return ""
    return "this TorchRL has the pad backend alone; the others came with 0.13"


def _module(asked: _Question) -> str:
    """What a Python-based module cannot be."""
    if not asked.variant.python_based:
        return ""
    if asked.facts.bidirectional:
        return f"python_based=True supports no bidirectional {asked.name}"
    if asked.facts.proj_size and asked.variant.backend != "scan":
        return "TorchRL's Python LSTM multiplies with the wrong sizes when proj_size is set"
    return ""


def _scan(asked: _Question) -> str:
    if not asked.scans:
        return ""
    if not asked.machine.hoptorch:
        return "the scan backend needs hoptorch, which is not installed"
    if version_numbers(asked.machine.torch) < SCAN_NEEDS_TORCH:
        return "the scan backend needs torch 2.6 or newer"
    refused = {
        "dropout": asked.facts.dropout,
        "proj_size": asked.facts.proj_size,
        "bidirectional layers": asked.facts.bidirectional,
    }
    return next((f"the scan backend supports no {what}" for what, on in refused.items() if on), "")


def _triton(asked: _Question) -> str:
    if asked.variant.backend != "triton":
        return ""
    if not asked.machine.triton:
        return "triton is not installed"
    if version_numbers(asked.machine.triton) < TRITON_NEEDS:
        return f"TorchRL needs triton 2.2 or newer, here is {asked.machine.triton}"
    if asked.falls_back:
        return ""
    if asked.variant.dtype == "float64":
        return "TorchRL's Triton kernels accumulate in float32: float64 is not computed by them"
    return "" if asked.on_cuda else _interpreter(asked)


def _interpreter(asked: _Question) -> str:
    """Why Triton's interpreter, the only way to run the kernels on a CPU, cannot."""
    machine, low, high = asked.machine, *INTERPRETER
    if machine.cuda:
        return "Triton's kernels run on the CUDA device that is here, not on CPU tensors"
    if asked.variant.compile != "eager":
        return "torch.compile does not trace Triton's interpreter; it needs CUDA"
    old = version_numbers(machine.triton) < low
    if old and version_numbers(machine.numpy) >= NUMPY_FOR_OLD_TRITON:
        return f"triton {machine.triton}'s interpreter fails with numpy {machine.numpy}"
    if old or version_numbers(machine.triton) >= high:
        return f"no CUDA, and triton {machine.triton}'s interpreter is not one that was tried (3.9)"
    if asked.variant.dtype == "bfloat16":
        return "no CUDA, and Triton's interpreter does not compute in bfloat16"
    return ""


def _recompute(asked: _Question) -> str:
    if asked.variant.recompute == "none" or asked.variant.backend in ("scan", "triton"):
        return ""
    return "recompute is for scan and triton alone: cuDNN manages the memory of pad's backward pass"


def _kernels(asked: _Question) -> str:
    """What the processor cannot compute where torch.nn's own layer runs."""
    dtype = torch_dtype(asked.variant.dtype)
    triton = asked.variant.backend == "triton" and not asked.falls_back
    if triton or asked.scans or asked.variant.python_based:
        return ""
    if asked.on_cuda or dtype not in NARROW_DTYPES:
        return ""
    return asked.machine.missing(LayerTrial(asked.facts.kind, dtype))


def _compile(asked: _Question) -> str:
    if asked.variant.compile == "eager":
        return ""
    if not asked.on_cuda and not asked.machine.compiler:
        return "torch.compile needs a C++ compiler, which is not here"
    return _full_graph(asked) if asked.variant.compile == "fullgraph" else ""


def _full_graph(asked: _Question) -> str:
    if asked.variant.backend == "pad":
        return "the pad backend splits at resets outside the graph: it has no full graph"
    if asked.facts.kind == "gru":
        return "torch.compile breaks the graph where GRUModule sets tensordict's lazy legacy mode"
    if asked.scans and not asked.variant.python_based:
        return "torch.compile breaks the graph at nn.LSTM: a full graph needs python_based"
    return ""


def _vmap(asked: _Question) -> str:
    if asked.vmap == "none":
        return ""
    if asked.variant.backend in ("pad", "auto") and asked.variant.compile == "eager":
        return "the pad backend branches on the resets, which vmap does not allow"
    if asked.variant.backend == "triton":
        return "the Triton backend has no vmap rule"
    if asked.vmap == "parameters":
        return "the scan backend has no vmap over parameters"
    if asked.variant.recompute != "none":
        return "recomputation by checkpoints has no vmap rule"
    if asked.facts.kind == "gru":
        return "GRUModule's scan is an autograd function without a vmap rule"
    return ""


OBSTACLES: tuple[Callable[[_Question], str], ...] = (
    _device,
    _old_torchrl,
    _module,
    _scan,
    _triton,
    _recompute,
    _kernels,
    _compile,
    _vmap,
)


def _without_effect(asked: _Question) -> Iterator[str]:
    """Settings that are accepted and change nothing here."""
    kernels = asked.variant.backend == "triton" and not asked.falls_back
    if asked.falls_back:
        yield "proj_size and bidirectional layers are run by the pad backend"
    if asked.variant.compute_dtype != "float32" and not kernels:
        yield f"compute dtype is ignored by {asked.variant.backend}"
    if asked.variant.matmul_precision != "auto" and not (kernels and asked.on_cuda):
        yield "matmul precision has no effect: only Triton's kernels on CUDA honour it"
    if asked.variant.backend == "auto" and asked.variant.compile != "eager":
        yield "the backward pass needs hoptorch.scan.ensure_scan_backward() once before"
    if asked.variant.compile == "reduce-overhead" and not asked.on_cuda:
        yield "reduce-overhead is CUDA graphs: on the CPU it compiles as default does"
