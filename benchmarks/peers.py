"""The workload of bench_peers and the ways in which people time it; each run answers once, from a
fresh process.

    python benchmarks/peers.py loop|torchrl|autorange '[256, 128, 32, 512, 0.03, "cpu"]'

With PEERS_UNTIL, a time.time(), each goes on with its calls until then instead of making its own
number. It prints what the way reports and its raw samples, in seconds, as JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from torch.utils.benchmark import Timer
from torchrl.modules import LSTMModule, set_recurrent_mode

Call = Callable[[], None]
LOOP = 10  # calls of a loop written by hand
WARM_UP, CALLS = 10, 30  # what TorchRL's bench_rnn_backward.py makes
SECONDS = 2.0  # that blocked_autorange is given


def workload(
    batch: int, steps: int, features: int, hidden: int, resets: float, device: str
) -> Call:
    """One forward and backward pass of an LSTM over ``[batch, steps]``, finished when it
    returns."""
    torch.manual_seed(0)
    module = LSTMModule(
        input_size=features, hidden_size=hidden, in_key="x", out_key="y", device=device
    )
    starts = torch.rand(batch, steps, 1) < resets
    starts[:, 0] = True
    state = torch.zeros(batch, steps, 1, hidden)
    values = {"x": torch.randn(batch, steps, features), "is_init": starts}
    states = {"recurrent_state_h": state, "recurrent_state_c": state.clone()}
    batch_of_all = TensorDict({**values, **states}, [batch, steps]).to(device)

    def call() -> None:
        module.zero_grad()
        with set_recurrent_mode(True):
            module(batch_of_all.copy())["y"].square().mean().backward()
        if device != "cpu":
            torch.cuda.synchronize()

    return call


def timed(call: Call) -> float:
    """Seconds of one call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def left() -> float:
    """Seconds that may still be used, where all are to take equally long; else none."""
    until = float(os.environ.get("PEERS_UNTIL", "0"))
    return max(0.0, until - time.time())


def calls(call: Call, count: int) -> list[float]:
    """Seconds of so many calls, and of as many more as there is time for."""
    samples = [timed(call) for _ in range(count)]
    while left() > samples[-1]:
        samples.append(timed(call))
    return samples


def loop(call: Call) -> tuple[float, list[float]]:
    """By hand: one call to warm up, and the mean of a few."""
    call()
    samples = calls(call, LOOP)
    return statistics.mean(samples), samples


def torchrl(call: Call) -> tuple[float, list[float]]:
    """As TorchRL's script does it: a fixed warm-up, and the mean of a fixed number of calls."""
    for _ in range(WARM_UP):
        call()
    samples = calls(call, CALLS)
    return statistics.mean(samples), samples


def autorange(call: Call) -> tuple[float, list[float]]:
    """torch.utils.benchmark: blocks of calls for a while, and their median."""
    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    found = timer.blocked_autorange(min_run_time=left() or SECONDS)
    return found.median, list(found.times)


WAYS = {"loop": loop, "torchrl": torchrl, "autorange": autorange}


def main(way: str, shape: list[Any]) -> None:
    value, samples = WAYS[way](workload(*shape))
    print(json.dumps({"value": value, "samples": samples}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
