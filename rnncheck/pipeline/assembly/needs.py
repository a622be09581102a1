"""What a spec's numbers would need, before it is made: a slip of the keyboard is refused in a
sentence, where it would fill the machine's memory until the kernel ends the process.

Every estimate is from below: it counts what must be there, and nothing that may be shared or freed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from torchrl.envs import EnvBase

from rnncheck.errors import ComponentError
from rnncheck.printable import counted
from rnncheck.spec.model import Component, KeyPath, Spec

# Bytes that one more process with torch and torchrl takes for itself; chosen: half of the 240 MiB
# that a process with one GymEnv was seen to hold alone.
WORKER = 128 * 2**20
_GATES = {"LSTM": 4, "GRU": 3}  # matrices of hidden_size x hidden_size, by what a class is called
_FLOAT = 4  # bytes of a weight: a smaller dtype is made of these
_SIZES = ((2**60, "EiB"), (2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"))
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def refuse_beyond_memory(spec: Spec, at: KeyPath, needed: int, what: str) -> None:
    """Raise a ComponentError where ``needed`` bytes are more than this machine has."""
    there = machine_memory()
    if there is not None and needed > there:
        raise ComponentError(
            f"{what} would need {_told(needed)} of memory, this machine has {_told(there)}",
            place=spec.locate(at),
            hint="is there a digit too many?",
        )


def machine_memory() -> int | None:
    """Bytes that this process may take at most; None where the system does not say."""
    found = []
    with suppress(ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(ValueError, OSError):  # a container's limit, or the word "max"
        found.append(int(_CGROUP.read_text()))
    return min(found, default=None)


def _told(size: int) -> str:
    unit, name = next(((u, n) for u, n in _SIZES if size >= u), _SIZES[-1])
    return f"{size / unit:.3g} {name}"


def refuse_weights(spec: Spec, component: Component) -> None:
    """Refuse the weights of a module that the spec names, where its sizes alone say too much."""
    for name in ("hidden_size", "num_cells"):
        sizes = component.args.get(name)
        if needed := _weights(component, name, sizes):
            what = f"the weights of {component.use} with {name} {sizes}"
            refuse_beyond_memory(spec, (*component.at, name), needed, what)


def _weights(component: Component, name: str, sizes: Any) -> int:
    if name == "num_cells":
        cells = [sizes] if isinstance(sizes, int) else sizes
        if not isinstance(cells, list) or not all(isinstance(one, int) for one in cells):
            return 0
        joined = sum(one * other for one, other in pairwise(cells))
        return _FLOAT * max(joined, *cells, 0) if cells else 0
    if not isinstance(sizes, int) or sizes < 1:
        return 0
    gates = next((n for kind, n in _GATES.items() if kind in (component.use or "")), 1)
    layers = component.args.get("num_layers", 1)
    return _FLOAT * gates * sizes**2 * (layers if isinstance(layers, int) else 1)


def refuse_batches(spec: Spec, component: Component, batches: int, env: EnvBase) -> None:
    """Refuse more batches than memory holds: each step keeps what the env's specs say."""
    frames = component.args.get("frames_per_batch")
    if component.use is None or not isinstance(frames, int):
        return
    step = 0
    with suppress(Exception):  # an env whose specs make no data: it fails elsewhere, with its words
        made = env.fake_tensordict()
        step = made.bytes() // max(made.numel(), 1)
    what = f"{batches} batches of {frames} frames"
    refuse_beyond_memory(spec, component.at, batches * frames * step, what)


def refuse_workers(spec: Spec, at: KeyPath, count: int) -> None:
    """Refuse more worker processes than memory holds."""
    refuse_beyond_memory(spec, at, count * WORKER, counted(count, "worker process"))
