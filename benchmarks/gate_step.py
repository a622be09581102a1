"""The train step of fixtures/gate/cartpole_step.yaml, for peers: as a pytest-benchmark test, and as
a plain median."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from rnncheck.pipeline.workload.prepared_pipeline import PreparedPipeline
from rnncheck.results.cells import Cell, Phase
from rnncheck.results.variant import OWN
from rnncheck.spec.load import load_spec

SPEC = Path(__file__).parent.parent / "fixtures/gate/cartpole_step.yaml"
SECONDS = 2.0  # of measuring, for the median
WARM = 10  # calls before


@contextmanager
def step() -> Iterator[Callable[[], object]]:
    """One train step, built as the gate builds it, and warm."""
    torch.set_num_threads(1)  # as the gate's own workers, and the kinder for it on a busy machine
    with PreparedPipeline(load_spec(SPEC, [])) as pipeline:
        cell = Cell(phase=Phase.TRAIN, variant=OWN, batch=32, steps=64, resets=0.03)
        call = pipeline.prepare(cell).call
        for _ in range(WARM):
            call()
        yield call


def test_step(benchmark: Any) -> None:
    with step() as call:
        benchmark(call)


def main() -> None:
    samples = []
    with step() as call:
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            samples.append(time.perf_counter() - begin)
    sys.stdout.write(f"{statistics.median(samples)}\n")


if __name__ == "__main__":
    main()
