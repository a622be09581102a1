"""A batch of rows with resets through an LSTM or GRU, from the equations, in any dtype and with
gradients.

In float64 it is the judge of every backend; in a backend's own dtype it says how much rounding an
honest computation makes there. Formulas and gate order are those of ``torch.nn.LSTM`` and
``torch.nn.GRU``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rollout:
    """``outputs`` ``[rows, steps, hidden]`` and, per kind of state, the state after every step
    ``[rows, steps, layers, hidden]``."""

    outputs: Tensor
    states: tuple[Tensor, ...]


def rollout(
    weights: Mapping[str, Tensor], inputs: Tensor, starts: Tensor, stored: Sequence[Tensor]
) -> Rollout:
    """Run ``inputs`` ``[rows, steps, features]`` in the dtype of the weights.

    A row begins in ``stored[...][:, 0]``, and where ``starts`` ``[rows, steps]`` is true it goes on
    from the state stored at that step. ``stored`` is ``(h, c)`` of an LSTM or ``(h,)`` of a GRU,
    ``[rows, steps, layers, hidden]``.
    """
    layers = sum(name.startswith("weight_ih_l") for name in weights)
    current = [part[:, 0] for part in stored]
    outputs, states = [], []
    for t, x in enumerate(inputs.unbind(1)):
        reset = starts[:, t].reshape(-1, 1, 1)
        current = [
            torch.where(reset, part[:, t], now) for part, now in zip(stored, current, strict=True)
        ]
        x, current = _step(weights, layers, x, current)
        outputs.append(x)
        states.append(current)
    after = tuple(torch.stack(list(part), 1) for part in zip(*states, strict=True))
    return Rollout(torch.stack(outputs, 1), after)


def _step(
    weights: Mapping[str, Tensor], layers: int, x: Tensor, current: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    equations, new = (_lstm if len(current) == 2 else _gru), []
    for layer in range(layers):
        found = equations(weights, layer, x, [part[:, layer] for part in current])
        new.append(found)
        x = found[0]
    return x, [torch.stack(list(part), 1) for part in zip(*new, strict=True)]


def _linear(weights: Mapping[str, Tensor], kind: str, layer: int, x: Tensor) -> Tensor:
    bias = weights.get(f"bias_{kind}_l{layer}")
    return torch.nn.functional.linear(x, weights[f"weight_{kind}_l{layer}"], bias)


def _lstm(
    weights: Mapping[str, Tensor], layer: int, x: Tensor, state: list[Tensor]
) -> list[Tensor]:
    h, c = state
    gates = _linear(weights, "ih", layer, x) + _linear(weights, "hh", layer, h)
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    projection = weights.get(f"weight_hr_l{layer}")
    return [h if projection is None else torch.nn.functional.linear(h, projection), c]


def _gru(weights: Mapping[str, Tensor], layer: int, x: Tensor, state: list[Tensor]) -> list[Tensor]:
    (h,) = state
    xr, xz, xn = _linear(weights, "ih", layer, x).chunk(3, -1)
    hr, hz, hn = _linear(weights, "hh", layer, h).chunk(3, -1)
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    n = (xn + r * hn).tanh()
    return [(1 - z) * n + z * h]
