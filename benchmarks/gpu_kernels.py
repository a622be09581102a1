"""Compiles Triton's kernels of an LSTM on all cores, each process one configuration: the sweep then
finds them in Triton's cache, which one process fills in minutes.

    python benchmarks/gpu_kernels.py [--hidden 128] [--jobs 14] [--precisions tf32 ieee tf32x3]
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from typing import Any

KERNELS = "torchrl.modules.tensordict_module._rnn_triton"
PRECISIONS = ("tf32", "ieee", "tf32x3")
ROWS, STEPS, FEATURES = 64, 32, 32  # multiples of 16, as those of the sweep: Triton tells no more
LEAST_ROWS = 16  # of a block: TorchRL leaves out smaller ones below a hidden size of 256


def fitting(kernel: Any, hidden: int) -> list[Any]:
    """The configurations that TorchRL tries for a hidden size below 256."""
    blocks = [(one, one.kwargs) for one in kernel.configs]
    wide = [one for one, held in blocks if held["BLOCK_B"] >= LEAST_ROWS]
    return [one for one in wide if hidden % one.kwargs["BLOCK_K"] == 0]


def compiled(task: tuple[str, int, int]) -> tuple[str, float, str]:
    """Forward, backward and forward without gradients; seconds, and what was raised."""
    import torch
    from tensordict import TensorDict
    from torchrl.modules import LSTMModule, set_recurrent_mode

    precision, number, hidden = task
    begin, kernels = time.perf_counter(), import_module(KERNELS)
    for kernel in (kernels._lstm_fwd_kernel, kernels._lstm_bwd_kernel):
        found = fitting(kernel, hidden)
        kernel.configs = [found[number % len(found)]]
    module = LSTMModule(
        FEATURES, hidden, in_key="x", out_key="y", recurrent_backend="triton",
        recurrent_matmul_precision=precision, device="cuda",
    )  # fmt: skip
    lead = (ROWS, STEPS)
    batch = TensorDict({"x": torch.randn(*lead, FEATURES)}, lead)
    batch["is_init"] = torch.zeros(*lead, 1, dtype=torch.bool)
    for name in ("recurrent_state_h", "recurrent_state_c"):
        batch[name] = torch.zeros(*lead, 1, hidden)
    batch, said = batch.to("cuda"), "compiled"
    try:
        with set_recurrent_mode(True):
            module(batch)["y"].square().mean().backward()
            with torch.no_grad():
                module(batch)
        torch.cuda.synchronize()
    except Exception as error:  # a block may be too large for the card
        said = f"{type(error).__name__}: {error}".splitlines()[0]
    return f"{precision} {number}", time.perf_counter() - begin, said


def main(arguments: Sequence[str] | None = None) -> int:
    """Always 0: what does not compile is left out by TorchRL's own search too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    asked = parser.parse_args(arguments)
    count = len(fitting(import_module(KERNELS)._lstm_fwd_kernel, asked.hidden))
    tasks = [(p, n, asked.hidden) for n, p in itertools.product(range(count), asked.precisions)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(asked.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        for name, seconds, said in pool.map(compiled, tasks):
            print(f"{name}: {seconds:.1f} s, {said}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
