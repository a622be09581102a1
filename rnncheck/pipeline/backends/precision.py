"""Which precision a recurrent module was asked for, and through which of the places that can ask.

TorchRL takes the precision of a recurrent matrix product from the module's own argument, else from
the process-wide setter, else from an environment variable that it reads when it is imported, else
from torch's ``float32_matmul_precision``. Only its Triton kernels honour it; cuDNN and cuBLAS
follow torch's own flags.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rnncheck.numerics.rounding import BITS, FLOAT32_BITS, TF32_BITS
from rnncheck.pipeline.backends.facts import torch_dtype, variant_of
from rnncheck.pipeline.backends.variable import VARIABLE, given
from rnncheck.pipeline.subject.stock import is_stock

_PRECISION_MODULE = "torchrl.modules.tensordict_module._rnn_precision"
TENSOR_CORES = ("tf32", "tf32x3")
# Significant bits that torch's own setting leaves to a float32 product.
TORCH_BITS = {"highest": FLOAT32_BITS, "high": TF32_BITS, "medium": BITS[torch.bfloat16]}


@dataclass(frozen=True)
class Resolved:
    """What ``auto`` stands for here: the concrete ``mode``, the ``setting`` as it was written, and
    its ``source``."""

    mode: str
    setting: str
    source: str

    @property
    def by_process(self) -> bool:
        """The setter or the variable asked for it; torch's own default is nobody's wish."""
        return self.source in (SETTER, ENVIRONMENT)


ARGUMENT = "module argument"
SETTER = "set_recurrent_matmul_precision"
ENVIRONMENT = f"environment variable {VARIABLE}"
TORCH = "torch.get_float32_matmul_precision"
_UNRESOLVED = Resolved("ieee", "none", "this TorchRL has no precision setting")


def resolve(argument: str = "auto") -> Resolved:
    """What a module's ``recurrent_matmul_precision`` means in this process, on its current
    device."""
    chain: Any = _chain()
    if chain is None:
        return _UNRESOLVED
    setting, source = _origin(chain, argument)
    return Resolved(str(chain._resolve_precision(setting)), setting, source)


def _chain() -> Any:
    """TorchRL's own resolution; private, so that a version without it gives None."""
    try:
        found = importlib.import_module(_PRECISION_MODULE)
    except ImportError:
        return None
    wanted = ("_GLOBAL_OVERRIDE", "_read_env_default", "_resolve_precision")
    return found if all(hasattr(found, name) for name in wanted) else None


def _origin(chain: Any, argument: str) -> tuple[str, str]:
    if argument != "auto":
        return argument, ARGUMENT
    override = chain._GLOBAL_OVERRIDE
    if override is not None:
        return override, ENVIRONMENT if override == chain._read_env_default() else SETTER
    return torch_setting(), TORCH


def torch_setting() -> str:
    """torch's ``float32_matmul_precision`` as TorchRL translates it."""
    translated = {"highest": "ieee", "high": "high-prec", "medium": "fast"}
    return translated.get(_torch_level() or "highest", "ieee")


def precision_sources() -> dict[str, str]:
    """What each source says now, the strongest first; empty where it says nothing."""
    chain: Any = _chain()
    override = getattr(chain, "_GLOBAL_OVERRIDE", None)
    variable = chain._read_env_default() if chain is not None else None
    return {
        ARGUMENT: "per module",
        SETTER: "" if override in (None, variable) else str(override),
        ENVIRONMENT: variable or "",
        TORCH: _torch_level() or "old and new flags were both used",
    }


def ignored_variable() -> str:
    """A sentence where the variable is set and TorchRL did not read it, because it came too
    late."""
    chain: Any = _chain()
    value = given()
    if chain is None or not value or chain._GLOBAL_OVERRIDE is not None:
        return ""
    return f"{VARIABLE}={value} has no effect: TorchRL reads it once, when it is imported"


@contextmanager
def settings_kept() -> Iterator[None]:
    """Process-wide precision that a user's code sets inside the context ends with it."""
    chain: Any = _chain()
    override, allowed = getattr(chain, "_GLOBAL_OVERRIDE", None), torch.backends.cudnn.allow_tf32
    level = _torch_level()
    try:
        yield
    finally:
        if chain is not None:
            chain._GLOBAL_OVERRIDE = override
        torch.backends.cudnn.allow_tf32 = allowed
        if level is not None:
            torch.set_float32_matmul_precision(level)


def _torch_level() -> str | None:
    """torch's ``float32_matmul_precision``; None where its old and its new flags were both used."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


@dataclass(frozen=True)
class AskedPrecision:
    """What one mode of a recurrent module is to be computed in, and who says so.

    ``explicit`` tells a setting from what the dtypes alone say; ``bits`` are those of a product's
    operands.
    """

    name: str
    by: str
    explicit: bool
    bits: int
    cannot: str = ""  # why it cannot be asked on this device


def asked_precision(
    module: nn.Module, dtypes: Iterable[torch.dtype], device: str, *, recurrent: bool
) -> AskedPrecision:
    """The precision that ``module`` is to have; ``dtypes`` are those of its states and outputs as
    it writes them.

    A compute dtype and a tensor-core mode are asked of the recurrent mode alone: no other pass
    knows them.
    """
    own = narrowest(parameter_dtypes(module))
    declared = narrowest([own, *dtypes])
    if is_stock(module):  # what it writes follows its parameters, unless an autocast region is on
        found = _compute_dtype(module, recurrent) or _argument(module, device, recurrent)
        found = found or _process(module, own, device, recurrent)
    else:
        found = _process(module, declared, device, recurrent)
    return found or _implied(declared, device)


def parameter_dtypes(module: nn.Module) -> list[torch.dtype]:
    """Floating dtypes of the module's parameters."""
    return [value.dtype for value in module.parameters() if value.is_floating_point()]


def narrowest(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    """The dtype with the fewest bits; float32 where there is none, and for float64."""
    known = [one for one in dtypes if BITS.get(one, FLOAT32_BITS + 1) < FLOAT32_BITS]
    return min(known, key=lambda one: BITS[one]) if known else torch.float32


def _compute_dtype(module: nn.Module, recurrent: bool) -> AskedPrecision | None:
    wanted = torch_dtype(variant_of(module).compute_dtype)
    bits = BITS.get(wanted, FLOAT32_BITS)
    if not recurrent or bits >= BITS[narrowest(parameter_dtypes(module))]:
        return None
    name = str(wanted).removeprefix("torch.")
    return AskedPrecision(name, f"recurrent_compute_dtype={name}", True, bits)


def _argument(module: nn.Module, device: str, recurrent: bool) -> AskedPrecision | None:
    setting = variant_of(module).matmul_precision
    if setting == "auto":
        return None
    return _matmul(resolve(setting), f"recurrent_matmul_precision={setting}", device, recurrent)


def _process(
    module: nn.Module, declared: torch.dtype, device: str, recurrent: bool
) -> AskedPrecision | None:
    """The setter and the variable speak of float32 products; a module in fewer bits has none."""
    resolved = resolve()
    if not resolved.by_process or declared is not torch.float32:
        return None
    if resolved.mode in TENSOR_CORES and not is_stock(module):
        return None
    by = f"{resolved.source.removeprefix('environment variable ')}={resolved.setting}"
    return _matmul(resolved, by, device, recurrent)


def _matmul(resolved: Resolved, by: str, device: str, recurrent: bool) -> AskedPrecision | None:
    mode = resolved.mode
    if mode not in TENSOR_CORES:
        return AskedPrecision(mode, by, True, FLOAT32_BITS)
    if not recurrent:
        return None
    cannot = "" if device.startswith("cuda") else NO_TENSOR_CORES
    return AskedPrecision(mode, by, True, TF32_BITS if mode == "tf32" else FLOAT32_BITS, cannot)


NO_TENSOR_CORES = "the CPU has no tensor cores: its kernels multiply in full float32"


def _implied(declared: torch.dtype, device: str) -> AskedPrecision:
    name = str(declared).removeprefix("torch.")
    bits, by = BITS[declared], f"its parameters, states and outputs in {name}"
    allowed = _allowed(device)
    if allowed < bits:
        return AskedPrecision(f"{allowed} bits", "torch's own settings", False, allowed)
    return AskedPrecision(name, by, False, bits)


def _allowed(device: str) -> int:
    """Significant bits that torch's flags leave to float32 products; where they contradict each
    other, tf32's."""
    bits = TORCH_BITS.get(_torch_level() or "high", TF32_BITS)
    if device.startswith("cuda") and torch.backends.cudnn.allow_tf32:
        return min(bits, TF32_BITS)
    return bits


def widest(values: Iterable[Tensor]) -> torch.dtype:
    """The floating dtype with the most bits; float32 where there is none."""
    found = [value.dtype for value in values if value.dtype in BITS]
    return max(found, key=lambda one: BITS[one]) if found else torch.float32
