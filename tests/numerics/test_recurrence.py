"""The equations against torch's own LSTM and GRU, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rnncheck.numerics import recurrence

TIGHT = {"rtol": 0.0, "atol": 1e-13}  # a few units in the last place of numbers around one


@given(
    kind=st.sampled_from([nn.LSTM, nn.GRU]),
    features=st.integers(1, 5),
    hidden=st.integers(2, 9),
    layers=st.integers(1, 3),
    bias=st.booleans(),
    steps=st.integers(1, 12),
    seed=st.integers(0, 2**31),
)
def test_outputs_and_states_are_torchs(
    kind: type[nn.RNNBase],
    features: int,
    hidden: int,
    layers: int,
    bias: bool,
    steps: int,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    rnn = kind(features, hidden, num_layers=layers, bias=bias).double()
    compare(rnn, torch.randn(steps, features).double(), hidden)


@given(size=st.integers(1, 4), layers=st.integers(1, 2), seed=st.integers(0, 2**31))
def test_projections_are_torchs(size: int, layers: int, seed: int) -> None:
    torch.manual_seed(seed)
    lstm = nn.LSTM(3, 5, num_layers=layers, proj_size=size).double()
    compare(lstm, torch.randn(7, 3).double(), size)


def compare(rnn: nn.RNNBase, inputs: torch.Tensor, width: int) -> None:
    """From random states, over all steps; ``width`` is the size of the hidden state."""
    h = torch.randn(rnn.num_layers, width).double()
    c = torch.randn(rnn.num_layers, rnn.hidden_size).double()
    states = (h, c) if isinstance(rnn, nn.LSTM) else (h,)
    with torch.no_grad():
        outputs, ends = rnn(inputs, states if len(states) == 2 else h)
    ends = ends if isinstance(ends, tuple) else (ends,)
    mine, my_ends = recurrence.unroll_equations(recurrence.weights(rnn), inputs, states)
    torch.testing.assert_close(mine, outputs, **TIGHT)
    for own, theirs in zip(my_ends, ends, strict=True):
        torch.testing.assert_close(own, theirs, **TIGHT)


@pytest.mark.parametrize("layers", [1, 3])
def test_layers_are_counted_by_the_parameters_names(layers: int) -> None:
    assert recurrence.layers(recurrence.weights(nn.GRU(2, 3, num_layers=layers))) == layers


def test_the_states_and_weights_handed_in_are_left_alone() -> None:
    torch.manual_seed(0)
    gru, h = nn.GRU(2, 3), torch.zeros(1, 3, dtype=torch.float64)
    before = {name: value.clone() for name, value in gru.named_parameters()}
    recurrence.unroll_equations(recurrence.weights(gru), torch.randn(4, 2), (h,))
    assert torch.equal(h, torch.zeros_like(h))
    assert all(torch.equal(value, before[name]) for name, value in gru.named_parameters())


def test_everything_is_computed_in_float64() -> None:
    outputs, (h,) = recurrence.unroll_equations(
        recurrence.weights(nn.GRU(2, 3)), torch.randn(4, 2), (torch.zeros(1, 3),)
    )
    assert (outputs.dtype, h.dtype) == (torch.float64, torch.float64)
    assert not outputs.requires_grad
