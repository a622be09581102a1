"""The process while the user's pipeline runs in it: no display, few threads, no stray output."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from typing import Any

import numpy as np
import torch
from torchrl._utils import logger

from rnncheck.pipeline.placing import forked_rng
from rnncheck.supervisor.interrupts import noticing

_LOOKED_FOR = ("pandas",)
HEADLESS = {"SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}


@contextlib.contextmanager
def calm(*, checking: bool = True, threads: int | None = None) -> Iterator[None]:
    """Send the user's prints to standard error, keep warnings down, and settle the number of
    torch's threads.

    ``checking`` takes one thread unless OMP_NUM_THREADS says otherwise: steps of a batch of one are
    too small to share, and a second thread makes them many times slower on a busy machine. Else
    ``threads``, or torch's own number: what is timed runs as it trains.
    """
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    level = logger.level
    logger.setLevel(max(level, logging.ERROR))  # it warns at every call
    moved = _off_stdout()
    before = torch.get_num_threads()
    if checking and "OMP_NUM_THREADS" not in os.environ:
        threads = 1
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with noticing(), contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for handler, stream in moved:
            handler.setStream(stream)
        logger.setLevel(level)
        torch.set_num_threads(before)


@contextmanager
def absence_known() -> Iterator[None]:
    """tensordict looks through all folders for pandas at every output of a module; where there is
    none, it is told at once."""
    original = importlib.util.find_spec
    absent = {name for name in _LOOKED_FOR if original(name) is None}

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        known = name in absent and name not in sys.modules
        return None if known else original(name, package)

    importlib.util.find_spec = find_spec
    try:
        yield
    finally:
        importlib.util.find_spec = original


def _off_stdout() -> list[tuple[logging.StreamHandler[Any], Any]]:
    """TorchRL logs to standard output, where a report may go; other handlers, a test runner's,
    stay."""
    found = [one for one in logger.handlers if isinstance(one, logging.StreamHandler)]
    moved = [(one, one.stream) for one in found if one.stream in (sys.stdout, sys.__stdout__)]
    for handler, _ in moved:
        handler.setStream(sys.stderr)
    return moved


@contextmanager
def keeping_randomness() -> Iterator[None]:
    """Leave the process's random numbers as they were."""
    mine, arrays = random.getstate(), np.random.get_state()
    with forked_rng():
        try:
            yield
        finally:
            random.setstate(mine)
            np.random.set_state(arrays)


@contextmanager
def settled_envs(seed: int) -> Iterator[None]:
    """An env of gymnasium's that nobody seeded takes its seed from the system, another one in every
    run: here it is drawn from ``seed``."""
    from gymnasium.utils import seeding

    original, draw = seeding.np_random, np.random.default_rng(seed)

    def np_random(seed: int | None = None) -> tuple[np.random.Generator, int]:
        return original(int(draw.integers(2**31)) if seed is None else seed)

    seeding.np_random = np_random
    try:
        yield
    finally:
        seeding.np_random = original
