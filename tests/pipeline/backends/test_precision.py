"""What a module was asked for and through which of the four sources; with a GPU, what its kernels
make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torchrl.modules import (
    GRUModule,
    LSTMModule,
    set_recurrent_matmul_precision,
    set_recurrent_mode,
)

from rnncheck.numerics.emulate import Computing
from rnncheck.numerics.rounding import BFLOAT16, IEEE, TF32, TF32X3
from rnncheck.pipeline.backends.overview import combinations, precision
from rnncheck.pipeline.backends.precision import (
    asked_precision,
    precision_sources,
    resolve,
    settings_kept,
)

FLOATS = [torch.float32]
EMULATED = {one.name: one for one in (IEEE, TF32, TF32X3, BFLOAT16)}
CPU = pytest.mark.skipif(torch.cuda.is_available(), reason="presets depend on the GPU")


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    with settings_kept():
        yield


def lstm(**more: Any) -> LSTMModule:
    return LSTMModule(4, 8, in_key="x", out_key="y", **more)


def test_torch_speaks_where_nothing_else_does() -> None:
    found = resolve()
    assert (found.mode, found.source) == ("ieee", "torch.get_float32_matmul_precision")
    assert not found.by_process


@CPU
@pytest.mark.parametrize("level", ["high", "medium"])
def test_torchs_setting_is_a_preset(level: str) -> None:
    torch.set_float32_matmul_precision(level)
    assert resolve().setting in ("high-prec", "fast")
    assert resolve().mode == "ieee"  # without tensor cores


def test_the_setter_is_stronger_than_torch_and_the_argument_than_the_setter() -> None:
    set_recurrent_matmul_precision("tf32x3")
    assert (resolve().mode, resolve().source) == ("tf32x3", "set_recurrent_matmul_precision")
    assert (resolve("ieee").mode, resolve("ieee").source) == ("ieee", "module argument")
    assert precision_sources()["set_recurrent_matmul_precision"] == "tf32x3"


def test_what_is_set_inside_ends_with_it() -> None:
    with settings_kept():
        set_recurrent_matmul_precision("tf32")
        torch.set_float32_matmul_precision("medium")
    assert resolve().mode == "ieee"
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("module", "recurrent", "name", "explicit"),
    [
        (lstm(), True, "float32", False),
        (lstm(recurrent_matmul_precision="ieee"), False, "ieee", True),
        (lstm(recurrent_matmul_precision="tf32x3"), True, "tf32x3", True),
        (lstm(recurrent_matmul_precision="tf32x3"), False, "float32", False),
        (lstm(recurrent_compute_dtype=torch.bfloat16), True, "bfloat16", True),
        (lstm(recurrent_compute_dtype=torch.bfloat16), False, "float32", False),
        (lstm().to(torch.bfloat16), True, "bfloat16", False),
        (lstm(recurrent_matmul_precision="ieee").to(torch.bfloat16), True, "ieee", True),
        (GRUModule(4, 8, in_key="x", out_key="y"), True, "float32", False),
        (nn.GRUCell(4, 8), True, "float32", False),
    ],
)
def test_what_is_asked_of_a_module(
    module: nn.Module, recurrent: bool, name: str, explicit: bool
) -> None:
    found = asked_precision(module, FLOATS, "cpu", recurrent=recurrent)
    assert (found.name, found.explicit) == (name, explicit)
    assert bool(found.cannot) == name.startswith("tf32")


def test_narrow_states_and_loose_settings_ask_for_less() -> None:
    assert asked_precision(nn.GRUCell(4, 8), [torch.bfloat16], "cpu", recurrent=True).bits == 8
    torch.set_float32_matmul_precision("high")
    assert asked_precision(nn.GRUCell(4, 8), FLOATS, "cpu", recurrent=True).bits == 11


def test_the_setter_speaks_to_every_recurrent_module() -> None:
    set_recurrent_matmul_precision("ieee")
    assert asked_precision(nn.GRUCell(4, 8), FLOATS, "cpu", recurrent=False).explicit
    assert not asked_precision(nn.GRUCell(4, 8), [torch.bfloat16], "cpu", recurrent=False).explicit
    set_recurrent_matmul_precision("tf32")
    assert not asked_precision(nn.GRUCell(4, 8), FLOATS, "cpu", recurrent=True).explicit


def test_the_overview_names_every_reason() -> None:
    found = list(combinations("cpu"))
    assert len({(one.option, one.backend) for one in found}) == len(found)
    assert all(one.reason for one in found if one.ability == "cannot")
    assert precision().auto in EMULATED


# --- with a GPU: the real kernels beside the emulation ------------------------------------------


def batch(hidden: int, device: str, steps: int = 64) -> TensorDict:
    draw = torch.Generator().manual_seed(0)
    start = torch.zeros(8, steps, 1, dtype=torch.bool)
    start[:, 0] = True
    state = torch.zeros(8, steps, 1, hidden)
    source = {"x": torch.randn(8, steps, 4, generator=draw), "is_init": start}
    states = {"recurrent_state_h": state, "recurrent_state_c": state.clone()}
    return TensorDict(source | states, [8, steps]).to(device)


@torch.no_grad()
def kernels(module: LSTMModule, mode: str) -> Tensor:
    module.recurrent_matmul_precision = mode
    with set_recurrent_mode(True):
        out: Tensor = module(batch(module.lstm.hidden_size, "cuda"))["y"]
    return out.cpu().double()


@torch.no_grad()
def emulated(module: LSTMModule, mode: str) -> Tensor:
    rnn = nn.LSTM(4, module.lstm.hidden_size, batch_first=True).double()
    rnn.load_state_dict({k: v.cpu().double() for k, v in module.lstm.state_dict().items()})
    with Computing(torch.float64, EMULATED.get(mode)):
        out: Tensor = rnn(batch(module.lstm.hidden_size, "cpu")["x"].double())[0]
    return out


@pytest.mark.gpu
@pytest.mark.parametrize("hidden", [64, 100])
def test_the_kernels_drift_as_their_emulation_does(hidden: int) -> None:
    torch.manual_seed(0)
    module = LSTMModule(
        4, hidden, in_key="x", out_key="y", recurrent_backend="triton", device="cuda"
    )
    exact = emulated(module, "float64")
    real, made = {}, {}
    for mode in (TF32.name, TF32X3.name, IEEE.name):
        real[mode] = (kernels(module, mode) - exact).square().mean((0, 2)).sqrt()
        made[mode] = (emulated(module, mode) - exact).square().mean((0, 2)).sqrt()
    assert bool((real["tf32"] > 30 * real["ieee"])[1:].all())
    assert bool((real["tf32"] > 30 * real["tf32x3"])[1:].all())
    ratio = (real["tf32"] / made["tf32"])[1:]
    assert 0.25 < float(ratio.min()) <= float(ratio.max()) < 8


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["pad", "scan"])
def test_other_backends_take_no_notice(backend: str) -> None:
    module = LSTMModule(4, 64, in_key="x", out_key="y", recurrent_backend=backend, device="cuda")
    assert torch.equal(kernels(module, "tf32"), kernels(module, "ieee"))
