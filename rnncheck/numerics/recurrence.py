"""LSTM and GRU in float64, from their equations: the judge where two implementations disagree.

Source of the formulas: the documentation of ``torch.nn.LSTM`` and ``torch.nn.GRU`` (gate order i,
f, g, o and r, z, n; projections as in LSTM with ``proj_size``). Weights are read from the
``nn.RNNBase`` parameter names.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

States = tuple[Tensor, ...]  # (h,) or (h, c), each [layers, hidden]


def weights(rnn: nn.Module) -> dict[str, Tensor]:
    """Parameters of an RNN in float64, detached."""
    return {name: value.detach().double().cpu() for name, value in rnn.named_parameters()}


def layers(parameters: dict[str, Tensor]) -> int:
    """How many layers the parameter names describe."""
    return sum(name.startswith("weight_ih_l") for name in parameters)


def unroll_equations(
    parameters: dict[str, Tensor], inputs: Tensor, states: States
) -> tuple[Tensor, States]:
    """Outputs ``[steps, hidden]`` and end states of ``inputs`` ``[steps, features]``, in eval mode.

    ``states`` are ``(h, c)`` of an LSTM or ``(h,)`` of a GRU, each ``[layers, hidden]``.
    """
    current = [part.double().cpu().clone() for part in states]
    outputs = []
    for x in inputs.double().cpu():
        for layer in range(layers(parameters)):
            step = _lstm if len(current) == 2 else _gru
            new = step(parameters, layer, x, [part[layer] for part in current])
            for part, value in zip(current, new, strict=True):
                part[layer] = value
            x = new[0]
        outputs.append(x)
    return torch.stack(outputs), tuple(current)


def _linear(parameters: dict[str, Tensor], kind: str, layer: int, x: Tensor) -> Tensor:
    result = parameters[f"weight_{kind}_l{layer}"] @ x
    bias = parameters.get(f"bias_{kind}_l{layer}")
    return result if bias is None else result + bias


def _lstm(
    parameters: dict[str, Tensor], layer: int, x: Tensor, state: list[Tensor]
) -> list[Tensor]:
    h, c = state
    gates = _linear(parameters, "ih", layer, x) + _linear(parameters, "hh", layer, h)
    i, f, g, o = gates.chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    projection = parameters.get(f"weight_hr_l{layer}")
    return [h if projection is None else projection @ h, c]


def _gru(parameters: dict[str, Tensor], layer: int, x: Tensor, state: list[Tensor]) -> list[Tensor]:
    (h,) = state
    xr, xz, xn = _linear(parameters, "ih", layer, x).chunk(3)
    hr, hz, hn = _linear(parameters, "hh", layer, h).chunk(3)
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    n = (xn + r * hn).tanh()
    return [(1 - z) * n + z * h]
