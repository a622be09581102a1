"""Other processes that load every core, for benchmarks of how timings stand it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager


def _burn() -> None:
    while True:
        sum(range(10_000))


@contextmanager
def loaded(wanted: bool = True) -> Iterator[None]:
    """Every core busy with another process, where it is wanted."""
    cores = os.cpu_count() or 1 if wanted else 0
    burners = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(cores)]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.terminate()
            burner.join()
