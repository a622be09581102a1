"""What a sample of a call is: its wall time, less what others took of it."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rnncheck.bench.load import process_began
from rnncheck.bench.timer import BLOCKS, SCHEDSTAT, Clocks, sample, warm_up

MS = 1_000_000


@pytest.mark.parametrize(
    ("wall", "process", "thread", "ready", "waited"),
    [
        (30, 30, 30, 0, 0),  # it had its core
        (70, 30, 30, 40, 40),  # another process had it
        (70, 30, 30, 0, 0),  # it slept, or the system does not tell: that is its own
        (70, 30, 30, 55, 40),  # no more than it did not compute
        (70, 60, 30, 40, 10),  # its own threads had it for 30 of them
        (70, 90, 30, 40, 0),
    ],
)
def test_what_is_taken_off_is_what_other_processes_had(
    wall: int, process: int, thread: int, ready: int, waited: int
) -> None:
    taken = Clocks(wall * MS, process * MS, thread * MS, ready * MS)
    assert taken.waited == waited * MS


def test_a_sample_of_what_sleeps_keeps_its_wall_time() -> None:
    slept = 0.05
    wall, cpu, waited = sample(lambda: time.sleep(slept), 2)
    assert wall + waited >= slept
    assert wall > slept / 2  # what is taken off is never the sleep, whatever the machine does
    assert cpu < slept


def burn() -> None:
    while True:
        sum(range(1000))


@contextmanager
def beside_another_process() -> Iterator[None]:
    """On one core, which another process wants too."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    other = multiprocessing.get_context("fork").Process(target=burn, daemon=True)
    other.start()
    try:
        yield
    finally:
        other.kill()
        other.join()
        os.sched_setaffinity(0, allowed)


@pytest.mark.skipif(not SCHEDSTAT.exists(), reason="this system does not tell who had the core")
def test_a_call_beside_another_process_takes_what_it_takes_alone() -> None:
    data = bytes(10_000_000)
    with beside_another_process():
        wall, cpu, waited = sample(lambda: hashlib.sha256(data), 20)
    assert waited > 0
    assert wall >= 0.9 * cpu


def test_warming_up_ends_when_calls_no_longer_become_faster() -> None:
    work = iter([200, 150, 100, 60])
    calls = list[int]()

    def call() -> None:
        calls.append(next(work, 40))
        hashlib.sha256(bytes(calls[-1] * 100_000))

    found = warm_up(call)
    assert found.steady
    assert len(calls) > 4 + BLOCKS
    assert found.first > found.seconds


def test_a_process_knows_when_it_began() -> None:
    before = time.monotonic()
    told = subprocess.run(
        [sys.executable, "-c", "from rnncheck.bench.load import *; print(process_began())"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert before - 2 * tick <= float(told) <= time.monotonic()
    assert process_began() < before
