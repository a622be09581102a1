"""What can run on this machine, found by trying it: versions, devices, environments, recurrent
backends."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import torchrl.collectors
from packaging.requirements import Requirement
from packaging.version import Version
from tensordict import TensorDict
from torchrl.envs import GymEnv
from torchrl.modules import LSTMModule, set_recurrent_mode

from rnncheck import __version__
from rnncheck.errors import first_line
from rnncheck.numerics.kernels import LAYER_TRIALS, LayerTrial, cannot_run
from rnncheck.pipeline.backends.overview import (
    Combination,
    ProcessPrecision,
    combinations,
    precision,
)
from rnncheck.pipeline.backends.precision import ignored_variable
from rnncheck.pipeline.compat import lacks_argument, without_implied
from rnncheck.results.variant import BACKENDS

SHORT_END = 2  # the last step of the shortest segment that the backends are tried on
LOST_END = "; the end state of a trajectory shorter than the longest is 0, see rnncheck rule EQ202"
OPTIONAL = {
    "triton": "the triton backend",
    "torchvision": "the Resize transform; without it rnncheck interpolates",
    "ray": "Ray collectors",
}


@dataclass(frozen=True)
class Package:
    """One library: what is installed, what is supported, what was tested. Empty strings mean:
    nothing known."""

    name: str
    installed: str
    supported: str = ""
    pinned: str = ""
    purpose: str = ""  # only for optional ones: what needs it

    @property
    def in_range(self) -> bool:
        """Whether the installed version lies in the supported range."""
        requirement = Requirement(f"{self.name}{self.supported}")
        return bool(self.installed) and requirement.specifier.contains(
            self.installed, prereleases=True
        )

    @property
    def as_pinned(self) -> bool:
        """Whether it is the tested version; a build tag such as ``+cpu`` does not count."""
        return not self.pinned or (
            bool(self.installed) and Version(self.installed).public == Version(self.pinned).public
        )


@dataclass(frozen=True)
class SeenDevice:
    """A device that torch sees."""

    name: str
    detail: str


@dataclass(frozen=True)
class Capability:
    """Something that was tried; ``detail`` says what came of it, or why it cannot run."""

    name: str
    works: bool
    detail: str


@dataclass(frozen=True)
class Diagnosis:
    """Everything that ``rnncheck doctor`` says."""

    version: str
    python: str
    platform: str
    packages: tuple[Package, ...]
    optional: tuple[Package, ...]
    torch_build: str
    threads: int
    devices: tuple[SeenDevice, ...]
    environments: tuple[Capability, ...]
    collector: Capability
    backends: tuple[Capability, ...]
    narrow: tuple[Capability, ...]  # recurrent layers in bfloat16 and float16 on the CPU
    combinations: tuple[Combination, ...]
    precision: ProcessPrecision
    warnings: tuple[str, ...]


def diagnose() -> Diagnosis:
    """Looks at the machine. Takes some seconds: environments and backends are tried, not
    guessed."""
    packages = required_packages(requirements(), pins())
    devices = _devices()
    kinds = dict.fromkeys(device.name.split(":")[0] for device in devices)
    return Diagnosis(
        version=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        packages=packages,
        optional=tuple(
            Package(name, _installed(name), purpose=purpose) for name, purpose in OPTIONAL.items()
        ),
        torch_build=_torch_build(),
        threads=torch.get_num_threads(),
        devices=devices,
        environments=(_try("CartPole-v1", _step_env), _try("pixels", _render)),
        collector=_collector(),
        backends=tuple(_backend(name, device.name) for device in devices for name in BACKENDS),
        narrow=tuple(map(_narrow, LAYER_TRIALS)),
        combinations=tuple(one for kind in kinds for one in combinations(kind)),
        precision=precision(),
        warnings=(*complaints(packages), *filter(None, [ignored_variable()])),
    )


def requirements() -> list[Requirement]:
    """What rnncheck's own metadata asks for, without the extras; empty when it is not installed."""
    try:
        lines = importlib.metadata.requires("rnncheck") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]


def pins() -> dict[str, str]:
    """The tested versions by normalised name: beside the package when installed, beside its folder
    in a checkout."""
    package = Path(__file__).parent.parent
    for file in (package / "constraints.txt", package.parent / "constraints.txt"):
        if file.is_file():
            lines = re.findall(r"(?m)^([\w.-]+)==(\S+)", file.read_text(encoding="utf-8"))
            return {_normal(name): version for name, version in lines}
    return {}


def required_packages(wanted: Iterable[Requirement], tested: dict[str, str]) -> tuple[Package, ...]:
    """The required libraries as they are installed."""
    return tuple(
        Package(
            one.name, _installed(one.name), str(one.specifier), tested.get(_normal(one.name), "")
        )
        for one in wanted
    )


def complaints(packages: tuple[Package, ...]) -> list[str]:
    """One sentence for each thing that is not as tested."""
    if not packages:
        return ["rnncheck is not installed as a package: its supported versions are unknown here"]
    found = [
        f"{one.name} {one.installed or 'is missing'}: supported is {one.supported}"
        for one in packages
        if not one.in_range
    ]
    moved = [one.name for one in packages if one.in_range and not one.as_pinned]
    if moved:
        found.append(f"not the tested version: {', '.join(moved)}; constraints.txt has the pins")
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _torch_build() -> str:
    cuda = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    return cuda + (f", cuDNN {cudnn}" if cudnn else "")


def _devices() -> tuple[SeenDevice, ...]:
    cpu = SeenDevice("cpu", f"{platform.machine()}, {os.cpu_count()} cores")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    cards = [SeenDevice(f"cuda:{index}", _card(index)) for index in range(count)]
    return (cpu, *cards)


def _card(index: int) -> str:
    found = torch.cuda.get_device_properties(index)
    return f"{found.name}, {found.total_memory / 2**30:.0f} GiB, sm_{found.major}{found.minor}"


def _collector() -> Capability:
    for name in ("Collector", "SyncDataCollector"):
        if hasattr(torchrl.collectors, name):
            return Capability(name, True, "the single-process collector of this TorchRL")
    return Capability("Collector", False, "this TorchRL has no single-process collector")


def _narrow(trial: LayerTrial) -> Capability:
    missing = cannot_run(trial)
    return Capability(trial.label, not missing, missing or "forward and backward ran")


def _try(name: str, attempt: Callable[[], str]) -> Capability:
    """Runs ``attempt``; what it raises is the reason why the thing cannot be used here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Capability(name, True, attempt())
    except Exception as error:  # whatever a backend or a driver raises is the answer
        return Capability(name, False, first_line(error))


def _step_env() -> str:
    env = GymEnv("CartPole-v1")
    try:
        env.rollout(2)
    finally:
        env.close()
    return "made and stepped"


def _render() -> str:
    env = GymEnv("CartPole-v1", from_pixels=True, pixels_only=True)
    try:
        height, width, _ = env.reset()["pixels"].shape
    finally:
        env.close()
    return f"CartPole-v1 rendered at {height}x{width}"


def _backend(name: str, device: str) -> Capability:
    return _try(f"{name} on {device}", lambda: _run_backend(name, torch.device(device)))


def _run_backend(name: str, device: torch.device) -> str:
    """One forward and backward of a small LSTM over a row with a reset in it."""
    chosen = without_implied("LSTMModule", {"recurrent_backend": name})
    for argument in chosen:
        if newer := lacks_argument("LSTMModule", argument):
            raise NotImplementedError(newer)
    module = LSTMModule(
        input_size=3, hidden_size=16, in_key="x", out_key="y", device=device, **chosen
    )
    data = _two_segments(device)
    with set_recurrent_mode(True):
        out = module(data)
    out["y"].sum().backward()
    lost = not out["next", "recurrent_state_h"][0, SHORT_END].any()
    return "forward and backward ran" + (LOST_END if lost else "")


def _two_segments(device: torch.device) -> TensorDict:
    start = torch.zeros(2, 8, 1, dtype=torch.bool, device=device)
    start[:, 0] = start[0, SHORT_END + 1] = True
    state = torch.zeros(2, 8, 1, 16, device=device)
    source = {
        "x": torch.ones(2, 8, 3, device=device),
        "is_init": start,
        "recurrent_state_h": state,
        "recurrent_state_c": state.clone(),
    }
    return TensorDict(source, [2, 8], device=device)
