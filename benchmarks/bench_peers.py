"""rnncheck's timing beside what people use today, on the same workload, in one run.

Each peer answers the same question ten times in fresh processes: how long does one forward-and-backward pass of an LSTM
take? The table shows the seconds until the answer, its own 95 % interval where it gives one, and how far its ten
answers lie apart; then the same while another process loads every core. Ratios of two identical workloads show what a
comparison is worth.

    python benchmarks/bench_peers.py [--repeats 10] [--small]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SHAPES = {  # batch, steps, input, hidden, resets: TorchRL's own benchmark, and a small policy
    "torchrl": (256, 128, 32, 512, 0.03),
    "small": (32, 64, 32, 64, 0.03),
}
ROOT = Path(__file__).parent.parent

WORKLOAD = """
import sys, json, time, statistics
import torch
from tensordict import TensorDict
from torchrl.modules import LSTMModule, set_recurrent_mode
batch, steps, features, hidden, resets = json.loads(sys.argv[1])
torch.manual_seed(0)
module = LSTMModule(input_size=features, hidden_size=hidden, in_key="x", out_key="y")
starts = torch.rand(batch, steps, 1) < resets
starts[:, 0] = True
state = torch.zeros(batch, steps, 1, hidden)
td = TensorDict({"x": torch.randn(batch, steps, features), "is_init": starts,
                 "recurrent_state_h": state, "recurrent_state_c": state.clone()}, [batch, steps])
def call():
    module.zero_grad()
    with set_recurrent_mode(True):
        module(td.copy())["y"].square().mean().backward()
call()
begin = time.perf_counter()
"""
LOOP = """
samples = []
for _ in range(10):
    t = time.perf_counter(); call(); samples.append(time.perf_counter() - t)
answer, half = statistics.mean(samples), None
"""
TORCHRL = """
for _ in range(3): call()  # as TorchRL's benchmark scripts do: a warm-up, then the mean of a fixed number of calls
samples = []
for _ in range(20):
    t = time.perf_counter(); call(); samples.append(time.perf_counter() - t)
answer, half = statistics.mean(samples), None
"""
AUTORANGE = """
from torch.utils.benchmark import Timer
found = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads()).blocked_autorange(min_run_time=2)
answer, half = found.median, found.iqr / 2 / found.median
"""
RNNCHECK = """
from rnncheck.bench.timer import sample, warm_up
from rnncheck.numerics.statistics import median_interval
warm, walls = warm_up(call), []
while True:
    walls.append(sample(call, warm.repetitions)[0])
    if len(walls) >= 16 and len(walls) % 4 == 0:
        found = median_interval(walls)
        if found.relative <= 0.02 or time.perf_counter() - begin > 30: break
answer, half = found.median, found.relative
"""
REPORT = """
print(json.dumps([answer, half, time.perf_counter() - begin]))
"""
PEERS = {
    "hand-written loop of 10": LOOP,
    "TorchRL's script (3 + 20 calls)": TORCHRL,
    "blocked_autorange (2 s)": AUTORANGE,
    "rnncheck": RNNCHECK,
}


def answer(body: str, shape: tuple[Any, ...]) -> tuple[float, float | None, float]:
    """Median seconds, relative half-interval, and seconds until the answer, from a fresh process."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WORKLOAD + body + REPORT, json.dumps(shape)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return found[0], found[1], found[2]


def _burn() -> None:
    while True:
        sum(range(10_000))


@contextmanager
def loaded(wanted: bool) -> Iterator[None]:
    """Every core busy with another process."""
    burners = [
        multiprocessing.Process(target=_burn, daemon=True) for _ in range(os.cpu_count() or 1)
    ]
    for burner in burners if wanted else []:
        burner.start()
    try:
        yield
    finally:
        for burner in burners if wanted else []:
            burner.terminate()
            burner.join()


def row(name: str, body: str, shape: tuple[Any, ...], repeats: int) -> str:
    """One line of the table."""
    found = [answer(body, shape) for _ in range(repeats)]
    medians = [one[0] for one in found]
    halves = [one[1] for one in found if one[1] is not None]
    middle = statistics.median(medians)
    spread = (max(medians) - min(medians)) / middle
    half = f"{statistics.median(halves):.1%}" if halves else "none given"
    seconds = statistics.median(one[2] for one in found)
    return f"| {name} | {middle * 1e3:.2f} ms | {seconds:.1f} s | {half} | {spread:.0%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="the small shape only")
    wanted = parser.parse_args()
    for shape_name, shape in SHAPES.items():
        if wanted.small and shape_name != "small":
            continue
        for busy in (False, True):
            print(
                f"\n{shape_name} {shape}, {'every core loaded' if busy else 'as quiet as it is'}\n"
            )
            print("| peer | answer | time to it | its interval | spread of its answers |")
            print("|---|---|---|---|---|", flush=True)
            with loaded(busy):
                for name, body in PEERS.items():
                    print(row(name, body, shape, wanted.repeats), flush=True)


if __name__ == "__main__":
    begin = time.perf_counter()
    main()
    print(f"\n{time.perf_counter() - begin:.0f} s in all")
