"""The twin without memory, whatever was done to the marks on the way to the network."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torchrl.modules import LSTMModule, set_recurrent_mode

from rnncheck.pipeline.instruments.memoryless import Memoryless


def batch() -> TensorDict:
    """``[2, 5]`` without a mark, from states that are not zero."""
    flags = torch.zeros(2, 5, 1, dtype=torch.bool)
    states = {name: torch.ones(2, 5, 1, 3) for name in ("recurrent_state_h", "recurrent_state_c")}
    return TensorDict({"x": torch.randn(2, 5, 4), "is_init": flags, **states}, [2, 5])


def test_every_step_is_alone_inside_and_as_before_outside() -> None:
    module, td = LSTMModule(4, 3, in_key="x", out_key="y"), batch()
    with set_recurrent_mode(True):
        whole = module(td.clone())
        with Memoryless():
            alone = module(td.clone())
        after = module(td.clone())
    fresh = td.clone().zero_().set("x", td["x"]).reshape(-1)
    steps = module(fresh)
    torch.testing.assert_close(alone["y"], steps["y"].reshape(2, 5, 3))
    assert alone["next", "recurrent_state_h"].shape == (2, 5, 1, 3)
    assert torch.equal(after["y"], whole["y"])
    assert not torch.allclose(alone["y"], whole["y"])


def test_gradients_stay_at_their_step() -> None:
    module, td = LSTMModule(4, 3, in_key="x", out_key="y"), batch()
    x = td["x"].clone().requires_grad_()
    with set_recurrent_mode(True), Memoryless():
        out = module(td.set("x", x))["y"]
    (grad,) = torch.autograd.grad(out[:, 2].sum(), x)
    assert set(grad.abs().sum((0, 2)).nonzero().flatten().tolist()) == {2}


def test_a_module_that_raises_leaves_the_context_in_order() -> None:
    module, td = LSTMModule(4, 3, in_key="x", out_key="y"), batch()
    with set_recurrent_mode(True), Memoryless() as twin:
        with pytest.raises(KeyError):
            module(td.exclude("x"))
        assert module(td.clone())["y"].shape == (2, 5, 3)
    assert not twin._whole


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.LSTM])
def test_layers_of_torch_forget_every_step(kind: Any, batch_first: bool) -> None:
    layer, x = kind(3, 5, num_layers=2, batch_first=batch_first), torch.randn(4, 6, 3)
    alone = torch.stack([layer(step.reshape(1, 1, 3))[0].flatten() for step in x.flatten(0, 1)])
    usual, shapes = layer(x)
    with Memoryless():
        y, states = layer(x)
    torch.testing.assert_close(y, alone.reshape(4, 6, 5))
    assert not torch.allclose(y, usual)
    last, whole = (one[0] if isinstance(one, tuple) else one for one in (states, shapes))
    torch.testing.assert_close(last[-1], y[:, -1] if batch_first else y[-1])
    assert last.shape == whole.shape
    torch.testing.assert_close(layer(x)[0], usual)
