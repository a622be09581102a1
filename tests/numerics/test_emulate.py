"""Running code again in a wider dtype than it asks for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from rnncheck.numerics.emulate import Computing
from rnncheck.numerics.rounding import TF32

LAYER = nn.Linear(6, 6).double()
VALUES = torch.randn(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def cast(x: Tensor) -> Tensor:
    return nn.functional.linear(x.bfloat16(), LAYER.weight.bfloat16(), LAYER.bias.bfloat16())


def through_zeros(x: Tensor) -> Tensor:
    held = torch.zeros(x.shape, dtype=torch.float16)
    return LAYER(held + x)


def constant(x: Tensor) -> Tensor:
    return LAYER(x) + (x.float() @ torch.eye(6)).double() - x


def autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return LAYER(x.float()).float()


def in_place(x: Tensor) -> Tensor:
    out = x.half()
    out[0].mul_(1.0)
    return LAYER(out)


@pytest.mark.parametrize("code", [cast, through_zeros, constant, autocast, in_place])
@torch.no_grad()
def test_narrower_floats_inside_are_undone(code: Callable[[Tensor], Tensor]) -> None:
    exact = LAYER(VALUES)
    with Computing(torch.float64):
        out = code(VALUES)
    assert out.dtype is torch.float64
    assert float((out - exact).abs().max()) < 1e-14


@torch.no_grad()
def test_whole_numbers_and_shapes_stay() -> None:
    with Computing(torch.float64):
        counts = torch.arange(3) + torch.ones(3, dtype=torch.long)
        flags = counts > 2
    assert (counts.dtype, flags.dtype) == (torch.long, torch.bool)
    assert counts.tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@torch.no_grad()
def test_a_rounded_product_reaches_into_torch_modules(kind: type[nn.RNNBase]) -> None:
    rnn = kind(6, 8, batch_first=True).double()
    exact = rnn(VALUES)[0]
    with Computing(torch.float64, TF32):
        rounded = rnn(VALUES)[0]
    assert 1e-7 < float((rounded - exact).abs().max()) < 1e-2


@torch.no_grad()
def test_a_scan_can_be_run_again_after_it_raised() -> None:
    from torch._higher_order_ops.scan import scan

    def step(state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return state + x, state * 2

    def run() -> Tensor:
        return scan(step, torch.zeros(6), VALUES.float())[0]  # type: ignore[no-any-return]

    before = run()
    with pytest.raises(Exception, match=r"scan|mode"), Computing(torch.float64):
        run()
    assert torch.equal(run(), before)


def test_complex_numbers_are_as_wide_as_their_parts() -> None:
    real = torch.tensor([0.1, 0.7], dtype=torch.float64)
    with Computing(torch.float64) as wide:
        turned = real.to(torch.cfloat) * torch.exp(torch.complex(real, real))
    assert wide.acted
    assert turned.dtype == torch.complex128
    assert torch.equal(turned, real * torch.exp(torch.complex(real, real)))
