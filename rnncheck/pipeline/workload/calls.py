"""The calls that are timed: forward, train and act, as a training script makes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import set_recurrent_mode

from rnncheck.pipeline.backends.trial import COMPILE_OPTIONS
from rnncheck.pipeline.instruments.call_loss import total_of
from rnncheck.pipeline.keys import tensor_keys
from rnncheck.results.cells import Accuracy, Memory
from rnncheck.results.variant import Variant

TimedCall = Callable[[], object]
# Compilations of one function: Dynamo counts those of all cells together and runs eagerly beyond
# its limit, 8 by default. Chosen: more compiled cells than one group has.
COMPILATIONS = 64
# Bytes written between samples with a cold cache: five times the L2 cache of an H100 (50 MB).
CACHE = 2**28


@dataclass
class PreparedCell:
    """One cell, ready to be timed. ``accuracy`` and ``memory`` are measured when they are asked
    for."""

    call: TimedCall
    accuracy: Callable[[], Accuracy | None]
    compiled: bool
    engine: str = "kernels"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    cold: bool = False

    @property
    def timed(self) -> Callable[[TimedCall, int], tuple[float, float, float]] | None:
        """How a sample is taken, where a clock around the call is not enough."""
        return self._cuda_sample if self.device.type == "cuda" else None

    def _cuda_sample(self, call: TimedCall, repetitions: int) -> tuple[float, float, float]:
        """Device seconds by events, and CPU seconds, of one call; nothing is taken off them."""
        if self.cold:
            torch.empty(CACHE, dtype=torch.int8, device=self.device).zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(self.device)
        cpu = time.process_time_ns()
        begin.record()
        for _ in range(repetitions):
            call()
        end.record()
        torch.cuda.synchronize(self.device)
        cpu = time.process_time_ns() - cpu
        return begin.elapsed_time(end) / repetitions / 1e3, cpu / repetitions / 1e9, 0.0

    def memory(self) -> Memory | None:
        """CUDA: peak allocated and reserved bytes of one call; None on the CPU, which is measured
        from outside."""
        if self.device.type != "cuda":
            return None
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        self.call()
        torch.cuda.synchronize(self.device)
        peak = torch.cuda.max_memory_allocated(self.device) - before
        return Memory(peak, torch.cuda.max_memory_reserved(self.device), "cuda")


def compiled(module: nn.Module, variant: Variant) -> nn.Module:
    """``module``, compiled in place where the variant says so, as ``policy.compile()`` does it.

    A loss that holds it then calls it compiled; compiling the loss itself breaks at its functional
    calls, around the recurrent module, so that nothing is gained.
    """
    if variant.compile != "eager":
        torch._dynamo.config.cache_size_limit = COMPILATIONS
        module.compile(**COMPILE_OPTIONS[variant.compile])
    return module


def forward_call(module: Any, batch: TensorDictBase) -> TimedCall:
    """Recurrent mode over ``[batch, steps]``, no gradient; what the last call wrote is
    overwritten."""

    def call() -> object:
        with torch.no_grad(), set_recurrent_mode(True):
            return module(batch)

    return call


def act_call(module: Any, step: TensorDictBase) -> TimedCall:
    """One sequential step of ``[batch]``, exploring, as a collector makes it."""

    def call() -> object:
        exploring = set_exploration_type(ExplorationType.RANDOM)
        with torch.no_grad(), exploring, set_recurrent_mode(False):
            return module(step)

    return call


def loss_call(loss: Any, sample: TensorDictBase, parameters: list[nn.Parameter]) -> TimedCall:
    """The spec's loss and its backward pass."""

    def call() -> object:
        for parameter in parameters:
            parameter.grad = None
        total, _ = total_of(loss(sample.copy()))
        return total.backward()

    return call


def plain_train_call(
    module: Any, batch: TensorDictBase, parameters: list[nn.Parameter]
) -> TimedCall:
    """Without a loss: the mean square of every float output, and its backward pass."""

    def call() -> object:
        for parameter in parameters:
            parameter.grad = None
        with set_recurrent_mode(True):
            out = module(batch.copy())
        return _square(out, batch).backward()

    return call


def _square(out: TensorDictBase, batch: TensorDictBase) -> Tensor:
    written = [out.get(key) for key in tensor_keys(out) if batch.get(key, None) is None]
    parts = [value.square().mean() for value in written if value.requires_grad]
    return torch.stack(parts).sum()
