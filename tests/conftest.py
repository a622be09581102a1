"""Shared by all tests: one thread for each worker, a fixed hypothesis profile, the CLI as a
process."""

from __future__ import annotations

import compileall
import importlib.util
import multiprocessing
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import warm
from tests.small import START

# Set before torch is imported, and inherited by subprocesses: workers that share two cores must not
# fight for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The smallest case of each cause takes seconds: the tests of cases ask for it.
os.environ.setdefault("RNNCHECK_CASES", "0")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame renders without a display
# What a shell starts in the background ignores Ctrl-C, and so would every process that the tests
# interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("rnncheck", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("rnncheck")

ROOT = Path(__file__).parent.parent

PRELOADED = ("collectors", "data", "envs", "modules")

Runner = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def rnncheck() -> Runner:
    """Runs ``rnncheck ARGS...`` as a process of its own and returns what it printed."""

    def run(*args: str, cwd: Path = ROOT, width: int = 120) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        env = os.environ | {"COLUMNS": str(width), "NO_COLOR": "1", "PYTHONPATH": paths}
        return warm.run(START, *args, cwd=cwd, env=env)

    return run


@pytest.fixture(scope="module")
def forked_workers() -> Iterator[None]:
    """Processes that TorchRL starts are forks of a server that has imported it, which takes each of
    them seconds by itself. They see no more of this process than those that it spawns."""
    import torchrl  # it chooses its way where none is chosen

    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_forkserver_preload([f"{torchrl.__name__}.{part}" for part in PRELOADED])
    multiprocessing.set_start_method("forkserver", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


def pytest_configure(config: pytest.Config) -> None:
    """Also where Python is told to keep no bytecode, no process that the tests start compiles the
    package anew. What the tests write is another matter: it changes within a second."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(ROOT / "rnncheck", quiet=2)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a GPU or Ray are skipped where there is none; cases behind the first so many
    of a test are slow, where it says so, and those that are listed."""
    cases, longest = Counter[str](), slow_ids()
    for item in items:
        if item.nodeid in longest:
            item.add_marker(pytest.mark.slow)
        first, name = item.get_closest_marker("first"), item.nodeid.split("[")[0]
        cases[name] += 1
        if first is not None and cases[name] > first.args[0]:
            item.add_marker(pytest.mark.slow)
    skips = {"gpu": (_no_gpu, "no CUDA device"), "ray": (_no_ray, "Ray is not installed")}
    for mark, (missing, reason) in skips.items():
        wanted = [item for item in items if item.get_closest_marker(mark)]
        if wanted and missing():
            for item in wanted:
                item.add_marker(pytest.mark.skip(reason=reason))


def slow_ids() -> set[str]:
    """Tests that are slow, beside those that say so themselves."""
    lines = (ROOT / "tests" / "slow_ids.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def _no_gpu() -> bool:
    import torch

    return not torch.cuda.is_available()


def _no_ray() -> bool:
    return importlib.util.find_spec("ray") is None
