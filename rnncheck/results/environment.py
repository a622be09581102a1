"""The machine and the libraries that a run saw, read without importing any of them."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rnncheck.results.model import Environment

PACKAGES = (
    "rnncheck",
    "torch",
    "torchrl",
    "tensordict",
    "hoptorch",
    "triton",
    "gymnasium",
    "numpy",
)
GPUS = Path("/proc/driver/nvidia/gpus")


def current_environment(device: str = "cpu") -> Environment:
    """What this process runs on; a package that is not installed is left out."""
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        packages=_versions(),
        device=device,
        threads=_threads(),
        cpu=_cpu_model(),
        gpu=gpu_models() if device.startswith("cuda") else "",
    )


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _threads() -> int:
    """The threads that torch uses, or will use where it is not loaded."""
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def gpu_models(folder: Path = GPUS) -> str:
    """The NVIDIA models that the driver lists, each once; empty where it lists none."""
    texts = [file.read_text(errors="replace") for file in sorted(folder.glob("*/information"))]
    lines = [line for text in texts for line in text.splitlines() if line.startswith("Model:")]
    return ", ".join(dict.fromkeys(line.partition(":")[2].strip() for line in lines))
