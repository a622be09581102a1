"""TorchRL's own recurrent modules: the ones whose equations are known."""

from __future__ import annotations

from torch import nn
from torchrl.modules import GRUModule, LSTMModule


def is_stock(module: nn.Module) -> bool:
    """An LSTMModule or GRUModule, or a subclass."""
    return isinstance(module, LSTMModule | GRUModule)


def rnn_of(module: nn.Module) -> nn.Module | None:
    """The RNN inside a stock module."""
    rnn = getattr(module, "lstm", None) if isinstance(module, LSTMModule) else None
    rnn = getattr(module, "gru", None) if isinstance(module, GRUModule) else rnn
    return rnn if isinstance(rnn, nn.Module) else None


def state_shapes(module: nn.Module, rnn: nn.Module) -> list[tuple[int, ...]]:
    """The shape of each state, in the order of the carry keys: ``(layers, hidden)``, h projected
    where it is."""
    size = {name: int(getattr(rnn, name, 0)) for name in ("num_layers", "hidden_size", "proj_size")}
    hidden = (size["num_layers"], size["proj_size"] or size["hidden_size"])
    return (
        [hidden, (size["num_layers"], size["hidden_size"])]
        if isinstance(module, LSTMModule)
        else [hidden]
    )


def scans(network: nn.Module) -> bool:
    """A stock module inside runs its recurrent mode as a scan, which is compiled even in eager
    mode."""
    return any(
        is_stock(m) and getattr(m, "recurrent_backend", "") == "scan" for m in network.modules()
    )
